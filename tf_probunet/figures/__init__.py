"""Figures: one module each; they read results and arrays, never a model."""
