"""Trains with changed settings and several seeds, and prints one table."""

from _start import command

command("compare_settings")
