"""Draws the curves of trainings from their TensorBoard logs, as PNG and SVG."""

from _start import command

command("draw_curves")
