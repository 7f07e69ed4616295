"""Trains with each change of the settings, with several seeds, and prints one table."""

from _start import command

command("compare_settings")
