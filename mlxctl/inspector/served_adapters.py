"""The LoRA adapters of a running `mlxctl serve`."""

from collections.abc import Iterable
from typing import Any
from urllib.parse import quote

from rich.table import Table

from mlxctl.inspector.connection import ServerConnection
from mlxctl.inspector.rendering import plain


class AdapterServer(ServerConnection):
    """Requests about LoRA adapters of a server."""

    def adapters(self) -> list[dict[str, Any]]:
        """Return the mounted adapters."""
        found: list[dict[str, Any]] = self.request("GET", "/v1/adapters")["adapters"]
        return found

    def mount(self, name: str, path: str, model: str | None) -> dict[str, Any]:
        """Mount an adapter, and return it."""
        body = {"id": name, "path": path} | ({} if model is None else {"model": model})
        return self.request("POST", "/v1/adapters", body)

    def unmount(self, name: str, model: str | None) -> dict[str, Any]:
        """Unmount an adapter, and return it."""
        query = "" if model is None else f"?model={quote(model, safe='')}"
        return self.request("DELETE", f"/v1/adapters/{quote(name, safe='')}{query}")


def adapters_table(adapters: Iterable[dict[str, Any]]) -> Table:
    """Return a table with one line for each adapter."""
    table = Table("adapter", "model", "path", box=None, pad_edge=False, header_style="bold")
    for heading in ("rank", "scale", "layers", "size"):
        table.add_column(heading, justify="right", no_wrap=True)
    for each in adapters:
        table.add_row(
            plain(each["id"]),
            plain(each["model"]),
            plain(each["path"]),
            str(each["rank"]),
            f"{each['scale']:g}",
            str(each["mounted_layers"]),
            f"{each['size_bytes'] / 2**20:.1f} MiB",
        )
    return table
