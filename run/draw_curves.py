"""Draws the curves of trainings from their TensorBoard logs, as PNG and SVG."""

from _start import command

if __name__ == "__main__":  # Not in worker processes.
    command("draw_curves")
