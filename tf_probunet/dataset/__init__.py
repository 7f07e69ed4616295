"""Prepared data: the record format, and its way into training and evaluation."""
