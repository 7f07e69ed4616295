"""Figures of results, data sets and SavedModels, one module each.

Every module has a `draw` that takes arrays; `make` reads the files and writes PNG and
SVG. Importing a figure does not import TensorFlow, nor pyplot.
"""
