"""Writes phantom data: CT-like lesions with an exactly known distribution of masks."""

from _start import command

command("prepare_phantom")
