"""Trains a model, or continues the run in --run_dir."""

from _start import command

if __name__ == "__main__":  # Not in worker processes.
    command("train")
