"""Compares independent, stratified and weighted samples of one model."""

from _start import command

if __name__ == "__main__":  # Not in worker processes.
    command("compare_sampling")
