"""Scores the same samples by every protocol, for the table in docs/evaluation.md."""

from _start import command

if __name__ == "__main__":  # Not in worker processes.
    command("compare_protocols")
