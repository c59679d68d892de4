"""Vectors and tokens of texts."""
