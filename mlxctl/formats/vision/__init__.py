"""Families of vision models: their files, and images as tokens and pixels.

Knows no mlx. A family is one file here and one in `mlxctl/engine/vision/families`.
"""
