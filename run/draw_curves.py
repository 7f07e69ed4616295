"""Draws how trainings went, from their TensorBoard logs: PNG and SVG."""

from _start import command

command("draw_curves")
