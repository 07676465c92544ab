"""What `ms.design` achieves: its efficiency, its limits, and its robustness."""
