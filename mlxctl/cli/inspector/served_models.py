"""Models of a running `mlxctl serve`, listed, loaded, unloaded and pinned."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Literal

import msgspec
from rich.table import Table

from mlxctl.cli.inspector.connection import ServerConnection
from mlxctl.cli.inspector.rendering import plain
from mlxctl.inference.remote.server_answers import convert_answer
from mlxctl.ir.errors import CapacityError, ServerUnreachable, describe_bytes

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


class ModelStatus(msgspec.Struct):
    """State of a model after a change."""

    model: str
    state: str
    pinned: bool


class _LoadProgress(msgspec.Struct):
    bytes_loaded: int
    bytes_total: int


class _Card(msgspec.Struct):
    id: str
    state: str
    pinned: bool
    size_bytes: int | None
    max_model_len: int | None
    problem: str | None
    root: str | None = None
    parent: str | None = None


class _CardList(msgspec.Struct):
    data: list[_Card]


class _LoadedModel(msgspec.Struct):
    name: str
    weights_bytes: int
    num_requests: int
    idle_seconds: float


class _Pool(msgspec.Struct):
    models: list[_LoadedModel]


class _Stats(msgspec.Struct):
    pool: _Pool


class ModelServer(ServerConnection):
    """Requests about the models of a server."""

    def models(self) -> list[ServedModelRow]:
        """Return the models that the server offers, in its order."""
        try:
            loaded = {model.name: model for model in self.request("GET", "/stats", _Stats).pool.models}
        except CapacityError:
            # The engine is starting, or models are being probed before it does.
            loaded = {}
        cards = {card.id: card for card in self.request("GET", "/v1/models", _CardList).data}
        # An adapter is no other name of its base model.
        own_names = {
            name: card.root if card.root is not None and card.root in cards and not card.parent else name
            for name, card in cards.items()
        }
        aliases: dict[str, list[str]] = {}
        for name, own_name in own_names.items():
            if name != own_name:
                aliases.setdefault(own_name, []).append(name)
        return [
            _row(card, tuple(aliases.get(name, ())), loaded.get(name))
            for name, card in cards.items()
            if own_names[name] == name
        ]

    def change(self, action: Action, name: str) -> ModelStatus:
        """Load, unload, pin or unpin a model, and return its state."""
        return self.request("POST", f"/models/{action}", ModelStatus, {"model": name})

    def load(self, name: str, *, on_progress: Callable[[int, int], None]) -> ModelStatus:
        """Load a model and return its state.

        `on_progress` gets the bytes in memory and those of the model's files, a few times a second.
        """
        path = "/models/load?stream=1"
        for event in self.events(path, {"model": name}):
            if "bytes_total" not in event:
                return convert_answer(event, ModelStatus, url=f"{self.root}{path}")
            progress = convert_answer(event, _LoadProgress, url=f"{self.root}{path}")
            on_progress(progress.bytes_loaded, progress.bytes_total)
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


def _row(card: _Card, aliases: tuple[str, ...], loaded: _LoadedModel | None) -> ServedModelRow:
    return ServedModelRow(
        name=card.id,
        aliases=aliases,
        state=card.state,
        is_pinned=card.pinned,
        weights_bytes=loaded.weights_bytes if loaded else card.size_bytes,
        context_length=card.max_model_len,
        num_requests=loaded.num_requests if loaded else None,
        idle_seconds=loaded.idle_seconds if loaded else None,
        problem=card.problem,
    )
