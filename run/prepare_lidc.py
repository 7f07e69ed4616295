"""Turns LIDC-IDRI into records: lesion-centred images with four masks each."""

from _start import command

command("prepare_lidc")
