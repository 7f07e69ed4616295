"""Prints parameters and multiply-adds of all models, as in docs/models.md."""

from _start import command

command("model_table")
