"""Speculative decoding: drafters, and when a draft pays. Knows no MLX."""
