"""The paper's numerical experiments, through the public interface of minstein alone: `minstein paper list`.

*Minimum Stein Discrepancy Estimators* (NeurIPS 2019). Importing this package does not load JAX.
"""
