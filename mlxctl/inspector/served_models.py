"""Models of a running `mlxctl serve`, listed, loaded, unloaded and pinned."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Literal

from rich.table import Table

from mlxctl.errors import CapacityError, InvalidRequest, ServerUnreachable, describe_bytes
from mlxctl.inspector.connection import ServerConnection
from mlxctl.inspector.rendering import plain

Action = Literal["load", "unload", "pin", "unpin"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ServedModelRow:
    """A model of the server.

    `aliases` are its other names. `num_requests` and `idle_seconds` are None unless it is in memory.
    """

    name: str
    aliases: tuple[str, ...] = ()
    state: str
    is_pinned: bool
    weights_bytes: int | None
    context_length: int | None
    num_requests: int | None
    idle_seconds: float | None
    problem: str | None


class ModelServer(ServerConnection):
    """Requests about the models of a server."""

    def models(self) -> list[ServedModelRow]:
        """Return the models that the server offers, in its order."""
        try:
            loaded = {model["name"]: model for model in self.request("GET", "/stats")["pool"]["models"]}
        except CapacityError:
            # The engine is starting, or models are being probed before it does.
            loaded = {}
        cards = self.request("GET", "/v1/models")["data"]
        own_names = {card["id"]: card.get("root") or card["id"] for card in cards}
        # An adapter is no other name of its base model.
        own_names |= {card["id"]: card["id"] for card in cards if card.get("parent")}
        aliases: dict[str, list[str]] = {name: [] for name in own_names}
        for name, own_name in own_names.items():
            if name != own_name:
                aliases[own_name].append(name)
        return [
            _row(card, tuple(aliases[card["id"]]), loaded.get(card["id"]))
            for card in cards
            if own_names[card["id"]] == card["id"]
        ]

    def change(self, action: Action, name: str) -> dict[str, Any]:
        """Load, unload, pin or unpin a model, and return its state."""
        return self.request("POST", f"/models/{action}", {"model": name})

    def load(self, name: str, *, on_progress: Callable[[int, int], None]) -> dict[str, Any]:
        """Load a model and return its state.

        `on_progress` gets the bytes in memory and those of the model's files, a few times a second.
        """
        for event in self.events("/models/load?stream=1", {"model": name}):
            if "error" in event:
                raise InvalidRequest(f"the server rejects this: {event['error']['message']}")
            if "bytes_total" not in event:
                return event
            on_progress(event["bytes_loaded"], event["bytes_total"])
        raise ServerUnreachable(self.root, "the connection ended before the model was loaded")


def served_models_table(rows: Iterable[ServedModelRow]) -> Table:
    """Return a table with one line for each model."""
    table = Table("model", "state", box=None, pad_edge=False, header_style="bold")
    for heading in ("size", "context", "requests", "idle"):
        table.add_column(heading, justify="right", no_wrap=True)
    for row in rows:
        table.add_row(
            plain(", ".join((row.name, *row.aliases))),
            plain(row.problem or row.state.replace("_", " ") + (", pinned" if row.is_pinned else "")),
            "–" if row.weights_bytes is None else describe_bytes(row.weights_bytes),
            "–" if row.context_length is None else f"{row.context_length:,}",
            "–" if row.num_requests is None else str(row.num_requests),
            "–" if row.idle_seconds is None else f"{row.idle_seconds:.0f} s",
        )
    return table


def _row(card: dict[str, Any], aliases: tuple[str, ...], loaded: dict[str, Any] | None) -> ServedModelRow:
    return ServedModelRow(
        name=card["id"],
        aliases=aliases,
        state=card["state"],
        is_pinned=card["pinned"],
        weights_bytes=loaded["weights_bytes"] if loaded else card["size_bytes"],
        context_length=card["max_model_len"],
        num_requests=loaded["num_requests"] if loaded else None,
        idle_seconds=loaded["idle_seconds"] if loaded else None,
        problem=card["problem"],
    )
