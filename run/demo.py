"""The whole way on phantom data: prepare, train, evaluate, export, reload, draw."""

from _start import command

if __name__ == "__main__":  # Not in worker processes, which import this.
    command("demo")
