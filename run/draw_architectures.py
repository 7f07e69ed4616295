"""Draws the architectures of all models, as in docs/models.md."""

from _start import command

command("draw_architectures")
