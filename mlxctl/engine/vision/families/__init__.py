"""Encoders of vision families: `Encoder` in the file of its name.

MLX thread only.
"""
