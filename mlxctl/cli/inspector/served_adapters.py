"""The LoRA adapters of a running `mlxctl serve`."""

from collections.abc import Iterable
from urllib.parse import quote

import msgspec
from rich.table import Table

from mlxctl.cli.inspector.connection import ServerConnection
from mlxctl.cli.inspector.rendering import plain
from mlxctl.ir.errors import describe_bytes


class MountedAdapter(msgspec.Struct):
    """A LoRA adapter as the server lists it."""

    id: str
    model: str
    path: str
    format: str
    rank: int
    scale: float
    size_bytes: int
    mounted_layers: int


class _AdapterList(msgspec.Struct):
    adapters: list[MountedAdapter]


class AdapterServer(ServerConnection):
    """Requests about LoRA adapters of a server."""

    def adapters(self) -> list[MountedAdapter]:
        """Return the mounted adapters."""
        return self.request("GET", "/v1/adapters", _AdapterList).adapters

    def mount(self, name: str, path: str, model: str | None) -> MountedAdapter:
        """Mount an adapter, and return it."""
        body = {"id": name, "path": path} | ({} if model is None else {"model": model})
        return self.request("POST", "/v1/adapters", MountedAdapter, body)

    def unmount(self, name: str, model: str | None) -> MountedAdapter:
        """Unmount an adapter, and return it."""
        query = "" if model is None else f"?model={quote(model, safe='')}"
        return self.request("DELETE", f"/v1/adapters/{quote(name, safe='')}{query}", MountedAdapter)


def adapters_table(adapters: Iterable[MountedAdapter]) -> Table:
    """Return a table with one line for each adapter."""
    table = Table("adapter", "model", "path", box=None, pad_edge=False, header_style="bold")
    for heading in ("rank", "scale", "layers", "size"):
        table.add_column(heading, justify="right", no_wrap=True)
    for each in adapters:
        table.add_row(
            plain(each.id),
            plain(each.model),
            plain(each.path),
            str(each.rank),
            f"{each.scale:g}",
            str(each.mounted_layers),
            describe_bytes(each.size_bytes),
        )
    return table
