"""Writes a page in which the latent space of one image can be walked, offline."""

from _start import command

if __name__ == "__main__":  # Not in worker processes, which import this.
    command("explore")
