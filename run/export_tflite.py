"""Exports the sampling path of a model with latents as a TensorFlow Lite file."""

from _start import command

command("export_tflite")
