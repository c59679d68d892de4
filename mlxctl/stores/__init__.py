"""What survives a request, or a restart: SQLite files. Knows values and bytes, no wire formats and no models."""

from mlxctl.stores.responses import ResponseStore, StoredItem, StoredResponse, StoreFacts

__all__ = ["ResponseStore", "StoreFacts", "StoredItem", "StoredResponse"]
