"""Draws pictures of the back of the eye with several graders, as a folder of PNGs."""

from _start import command

if __name__ == "__main__":
    command("prepare_fundus_phantom")
