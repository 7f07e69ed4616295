"""Scores a SavedModel, or another model's samples, and writes tables of the results."""

from _start import command

command("evaluate")
