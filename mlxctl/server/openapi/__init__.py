"""The description of the HTTP interface, made from the types that requests are read with."""

from mlxctl.server.openapi.resource import OpenApiResource

__all__ = ["OpenApiResource"]
