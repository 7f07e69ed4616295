"""Turns LIDC-IDRI into records: lesion-centred images with four masks each."""

from _start import command

if __name__ == "__main__":  # Not in worker processes, which import this.
    command("prepare_lidc")
