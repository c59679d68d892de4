"""Models of no family that is known here: what can be found out is found out, nothing is assumed."""

from mlxctl.adapters.adapter import ModelAdapter


class DefaultAdapter(ModelAdapter):
    """A model of an unknown family, understood by its files alone."""
