"""Exports the sampling path of a model with latents as a TensorFlow Lite file."""

from _start import command

if __name__ == "__main__":  # Not in worker processes, which import this.
    command("export_tflite")
