"""The description of the HTTP interface, made from the types that requests are read with."""

from mlxctl.server.openapi.document import Document, OpenApiResource

__all__ = ["Document", "OpenApiResource"]
