"""What a finished model and its scores look like on disk."""
