"""Simulation studies, through the public interface of minstein alone: `python -m studies`.

They belong to a checkout, not to the installed package. Importing `studies` does not load JAX.
"""
