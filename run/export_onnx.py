"""Exports the sampling path of a model with latents as an ONNX file."""

from _start import command

if __name__ == "__main__":  # Not in worker processes.
    command("export_onnx")
