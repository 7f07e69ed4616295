"""Writes Cityscapes as records of 256x512 with the 19 training classes."""

from _start import command

if __name__ == "__main__":  # Not in worker processes, which import this.
    command("prepare_cityscapes")
