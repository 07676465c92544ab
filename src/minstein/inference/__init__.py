"""What can be asked once a model has been fitted: influence, robustness, efficiency, designs, the
bootstrap.
"""
