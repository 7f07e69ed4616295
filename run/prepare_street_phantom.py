"""Draws artificial street scenes in the raw layout of Cityscapes."""

from _start import command

if __name__ == "__main__":  # Not in worker processes.
    command("prepare_street_phantom")
