"""Serves a SavedModel over HTTP: images in, weighted hypotheses out."""

from _start import command

command("serve")
