"""Where data live and how they are read: spaces, samples in memory, rows on devices and on disk,
robust statistics.
"""
