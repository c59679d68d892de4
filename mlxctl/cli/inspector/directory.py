"""The prefix cache on disk, for commands without a server."""

import time
from array import array
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, Self

from mlxctl.cli.inspector.branches import Branch, build_trees
from mlxctl.cli.inspector.cached_chunk import ListedChunk
from mlxctl.cli.inspector.disk_explanation import DiskExplanation, explain_on_disk
from mlxctl.cli.inspector.labels import UserMarkers
from mlxctl.cli.inspector.local_models import LocalModels
from mlxctl.cli.inspector.request_file import RequestFile
from mlxctl.inference.cache.token_text import comparable_ids, token_text
from mlxctl.ir.errors import InvalidRequest, StoreError
from mlxctl.ir.tokens import Tokens, image_salts, pack
from mlxctl.prefix_cache.disk.inspection import DiskEntry, DiskInspector
from mlxctl.state.stores.damage import DATABASE_ERRORS


class CacheDirectory:
    """Disk tier below a cache directory, with the methods of `ServerClient`.

    Raises StoreError when it does not exist, cannot be read, or, for changes, is in use by a server.
    """

    def __init__(self, directory: Path, *, max_bytes: int, min_free_bytes: int, models: LocalModels) -> None:
        self._directory = directory
        self._models = models
        self._max_bytes = max_bytes
        self._min_free_bytes = min_free_bytes

    def __enter__(self) -> Self:
        self._inspector = DiskInspector.open(self._directory)
        return self

    def __exit__(self, *_: object) -> None:
        self._inspector.close()

    def trees(self) -> dict[str, list[Branch]]:
        """Return all chunks as conversations."""
        chunks = self.chunks()
        names = {chunk.model for chunk in chunks if chunk.model is not None}
        pairs = {name: self._models.user_markers(name) for name in names}
        return build_trees(
            chunks, {name: UserMarkers(*pair) for name, pair in pairs.items() if pair is not None}
        )

    def chunks(self) -> list[ListedChunk]:
        """Return all chunks, the least recently used first."""
        return [self._listed(entry) for entry in self._inspector.entries()]

    def stats(self) -> dict[str, Any]:
        """Return sizes; errors are counted only by a server."""
        sizes = self._inspector.sizes()
        figures = {
            "num_bytes": sizes.record_bytes,
            "file_bytes": sizes.file_bytes,
            "max_bytes": self._max_bytes,
            "num_chunks": sizes.num_chunks,
            "num_states": sizes.num_states,
            "num_dropped": None,
            "num_damaged": None,
        }
        return {"cache_disk": figures}

    def explain(self, request: RequestFile) -> DiskExplanation:
        """Return how much of a request's prompt is on disk.

        Raises InvalidRequest when the model cannot be determined.
        """
        entries = self._inspector.entries()
        names = sorted({entry.model for entry in entries if entry.model is not None})
        requested = request.body.get("model")
        if requested not in names and len(names) != 1:
            known = ", ".join(map(repr, names)) or "no model whose name is known"
            raise InvalidRequest(
                f"the request names model {requested!r}; on disk are prompts of {known}", param="model"
            )
        model = requested if requested in names else names[0]
        prompt = self._models.prompt(model, request.protocol, request.body)
        if prompt is None:
            raise InvalidRequest(
                f"model {model!r} is not on this machine, so its tokens are unknown", param="model"
            )
        salts, tokens = image_salts(prompt.images), pack(prompt.token_ids)
        found = explain_on_disk(entries, model, tokens, self._models.text, salts=salts, now=time.time())
        if found.num_known_tokens == len(tokens):
            return found
        section = self._models.section_at(model, request.protocol, request.body, found.num_known_tokens)
        return (
            found
            if section is None
            else replace(found, place=section.name, message=section.message, tool=section.tool)
        )

    def change_chunks(self, action: str, keys: list[str] | None = None) -> dict[str, Any]:
        """Pin, unpin, drop, clear or gc.

        Loads mlx, because it uses the engine's disk tier.
        """
        try:
            return self._change(action, [bytes.fromhex(key) for key in keys or ()])
        except (OSError, *DATABASE_ERRORS) as error:
            raise StoreError(
                f"cannot change the prefix cache in {str(self._directory)!r}: {error}"
            ) from error

    def _change(self, action: str, keys: list[bytes]) -> dict[str, Any]:
        from mlxctl.prefix_cache.disk import maintenance

        match action:
            case "pin" | "unpin":
                return asdict(maintenance.set_pins(self._directory, keys, is_pinned=action == "pin"))
            case "drop":
                return asdict(maintenance.drop(self._directory, keys))
            case "clear":
                return asdict(maintenance.clear(self._directory))
            case _:
                limits = {"max_bytes": self._max_bytes, "min_free_bytes": self._min_free_bytes}
                return asdict(maintenance.collect(self._directory, **limits))

    def _text(self, entry: DiskEntry, tokens: Tokens) -> str | None:
        model = entry.model
        return (
            None
            if model is None
            else token_text(tokens, entry.salts, entry.start, lambda run: self._models.text(model, run))
        )

    def _listed(self, entry: DiskEntry) -> ListedChunk:
        tokens = array("I", entry.tokens)
        return ListedChunk(
            key=entry.key.hex(),
            parent=entry.parent.hex() if entry.parent is not None else None,
            model=entry.model,
            namespace=entry.namespace.hex(),
            start=entry.start,
            num_tokens=len(tokens),
            text=self._text(entry, tokens),
            memory_bytes=0,
            disk_bytes=entry.num_bytes,
            checkpoints=list(entry.positions),
            num_hits=None,
            used_at=None,
            expires_at=entry.expires_at,
            is_pinned=entry.is_pinned,
            is_in_use=False,
            token_ids=comparable_ids(tokens, entry.salts, entry.start),
        )
