"""Puts several results of run/evaluate.py into one table."""

from _start import command

if __name__ == "__main__":  # Not in worker processes, which import this.
    command("compare")
