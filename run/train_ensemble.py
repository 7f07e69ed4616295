"""Trains the members of a U-Net Ensemble: U-Nets with different seeds."""

from _start import command

if __name__ == "__main__":  # Not in worker processes.
    command("train_ensemble")
