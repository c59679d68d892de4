"""Which models there are and what they say about themselves. Knows no mlx and loads no weights."""

from mlxctl.models.reading import read_model

__all__ = ["read_model"]
