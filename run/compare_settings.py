"""Trains with changed settings and several seeds, and prints one table."""

from _start import command

if __name__ == "__main__":  # Not in worker processes.
    command("compare_settings")
