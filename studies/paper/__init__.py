"""The numerical experiments of *Minimum Stein Discrepancy Estimators* (NeurIPS 2019): `python -m studies paper list`.

Importing this package does not load JAX.
"""
