"""Measured runs held against the model."""
