"""Compares several results of run/evaluate.py in one table."""

from _start import command

command("compare")
