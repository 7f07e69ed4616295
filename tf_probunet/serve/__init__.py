"""A small HTTP service: images in, weighted hypotheses out."""
