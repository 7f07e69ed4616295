"""Exports a trained model as a SavedModel that needs TensorFlow only."""

from _start import command

if __name__ == "__main__":  # Not in worker processes, which import this.
    command("export")
