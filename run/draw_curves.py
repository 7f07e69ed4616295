"""Draws how trainings went, from their TensorBoard logs: PNG and SVG."""

from _start import command

if __name__ == "__main__":  # Not in worker processes, which import this.
    command("draw_curves")
