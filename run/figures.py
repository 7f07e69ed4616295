"""Draws the figures of the paper, and more, from results: PNG and SVG."""

from _start import command

if __name__ == "__main__":  # Not in worker processes, which import this.
    command("figures")
