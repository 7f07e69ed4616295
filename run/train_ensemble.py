"""Trains the members of a U-Net Ensemble one after another: U-Nets with other seeds."""

from _start import command

if __name__ == "__main__":  # Not in worker processes, which import this.
    command("train_ensemble")
