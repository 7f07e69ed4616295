"""Training: strategy, schedule, checkpoints, callbacks and the loop that joins them."""
