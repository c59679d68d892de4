"""Speculative decoding: drafters, and the gate that decides when a draft pays. Knows no MLX."""
