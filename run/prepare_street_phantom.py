"""Draws made-up street scenes in the raw layout of Cityscapes."""

from _start import command

if __name__ == "__main__":  # Not in worker processes, which import this.
    command("prepare_street_phantom")
