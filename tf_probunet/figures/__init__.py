"""Figures: one module each; they read results, shards and SavedModels, never a model.

Every module has a `draw` that takes arrays; `make` reads the files and writes PNG and
SVG. Importing a figure does not import TensorFlow, nor pyplot.
"""
