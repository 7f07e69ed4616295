"""Trains a model, or continues the run in --run_dir."""

from _start import command

command("train")
