"""Trains all models and ablations alike and prints one table."""

from _start import command

command("compare_models")
