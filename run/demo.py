"""The whole way on phantom data: prepare, train, evaluate, export, reload, draw."""

from _start import command

command("demo")
