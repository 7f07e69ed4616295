"""Shows the whole path on phantom data: prepare, train, evaluate, export, draw."""

from _start import command

command("demo")
