"""Draws the figures of the paper, and more, from results, as PNG and SVG."""

from _start import command

command("figures")
