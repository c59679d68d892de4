"""Families of language models that take audio: files, tokens and spectrograms.

Knows no mlx. A family is one file here and one in `mlxctl/engine/vision/families`.
"""
