"""Sums over pairs: one contract (`operator`), one class for each way of summing, one place that
chooses (`backends`)."""
