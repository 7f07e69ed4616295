"""Turns your own images with several masks each into records."""

from _start import command

if __name__ == "__main__":  # Not in worker processes.
    command("prepare_folder")
