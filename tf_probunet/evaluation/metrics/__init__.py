"""The metrics: functions of arrays that need only NumPy and SciPy."""
