"""Compares several results of run/evaluate.py in one table."""

from _start import command

if __name__ == "__main__":  # Not in worker processes.
    command("compare")
