"""The metrics: functions of arrays, NumPy and SciPy only."""
