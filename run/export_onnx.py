"""Exports the sampling path of a model with latents as an ONNX file."""

from _start import command

command("export_onnx")
