"""Draws the architectures of all models, as in docs/models.md."""

from _start import command

if __name__ == "__main__":  # Not in worker processes, which import this.
    command("draw_architectures")
