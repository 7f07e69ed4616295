"""Writes an HTML page to explore the latent space of one image offline."""

from _start import command

if __name__ == "__main__":  # Not in worker processes.
    command("explore")
