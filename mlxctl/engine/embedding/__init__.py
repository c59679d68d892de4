"""Embedding models in the engine.

MLX thread only, except `queue`, which is pure.
"""
