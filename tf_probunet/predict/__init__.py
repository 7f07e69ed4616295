"""A person's own images in, hypotheses out; `predict.predict` does it all."""
