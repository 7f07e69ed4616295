"""Trains the members of a U-Net Ensemble: U-Nets with different seeds."""

from _start import command

command("train_ensemble")
