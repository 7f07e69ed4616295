"""Draws the figures of the paper, and more, from results: PNG and SVG."""

from _start import command

command("figures")
