"""Puts several results of run/evaluate.py into one table."""

from _start import command

command("compare")
