"""Trains all models and ablations alike and prints one table."""

from _start import command

if __name__ == "__main__":  # Not in worker processes, which import this.
    command("compare_models")
