"""Trains with each change of the settings, with several seeds, and prints one table."""

from _start import command

if __name__ == "__main__":  # Not in worker processes, which import this.
    command("compare_settings")
