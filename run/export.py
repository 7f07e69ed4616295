"""Exports a trained model as a SavedModel that needs TensorFlow only."""

from _start import command

command("export")
