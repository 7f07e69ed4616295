"""Turns Cityscapes into records of 256x512 with the 19 training classes."""

from _start import command

command("prepare_cityscapes")
