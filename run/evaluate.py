"""Scores a SavedModel, or another model's samples, and writes tables of the results."""

from _start import command

if __name__ == "__main__":  # Not in worker processes, which import this.
    command("evaluate")
