"""Draws artificial street scenes in the raw layout of Cityscapes."""

from _start import command

command("prepare_street_phantom")
