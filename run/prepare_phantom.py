"""Writes phantom data: CT-like lesions with an exactly known distribution of masks."""

from _start import command

if __name__ == "__main__":  # Not in worker processes, which import this.
    command("prepare_phantom")
