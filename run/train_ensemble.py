"""Trains the members of a U-Net Ensemble one after another: U-Nets with other seeds."""

from _start import command

command("train_ensemble")
