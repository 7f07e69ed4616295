"""Writes an HTML page to explore the latent space of one image offline."""

from _start import command

command("explore")
