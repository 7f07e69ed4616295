"""Shows the whole path on phantom data: prepare, train, evaluate, export, draw."""

from _start import command

if __name__ == "__main__":  # Not in worker processes.
    command("demo")
