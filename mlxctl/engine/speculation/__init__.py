"""Speculative decoding: draft models, MTP heads, lookup, verification.

MLX thread only. `policy` decides when a draft pays, and knows no MLX.
"""
