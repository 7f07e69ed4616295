"""Metrics and statistics of sampled segmentations: NumPy and SciPy only."""
