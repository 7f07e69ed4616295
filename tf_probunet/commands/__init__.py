"""What each command does; `run/*.py` and `tf_probunet` are doors to them."""
