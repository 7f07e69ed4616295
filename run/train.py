"""Trains a model; goes on with the run in --run_dir if there is one."""

from _start import command

if __name__ == "__main__":  # Not in worker processes, which import this.
    command("train")
