"""Serves a SavedModel over HTTP: images in, weighted hypotheses out."""

from _start import command

if __name__ == "__main__":  # Not in worker processes.
    command("serve")
