"""The card of this server, for commands of its user.

Event-loop thread only.
"""

import asyncio
import logging
import os
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from mlxctl.inference import ServedModel
from mlxctl.inference.models.manager import Models
from mlxctl.ir.allowed_models import EVERY_MODEL
from mlxctl.ir.errors import BrokenModel
from mlxctl.library.fingerprint import fingerprint
from mlxctl.server.http.address import Address
from mlxctl.state import locations
from mlxctl.state.stores.server_cards import CardFile, ServedDirectory, ServerCard

_log = logging.getLogger(__name__)


class PublishedCard:
    """Writes the card again when models changed, or what is in memory."""

    def __init__(self, address: Address, models: Models) -> None:
        self._address = address
        self._models = models
        self._file = CardFile(locations.server_cards_directory(), port=address.port)
        self._lock = asyncio.Lock()
        self._written: ServerCard | None = None
        self._fingerprints: dict[tuple[Path, float], str | None] = {}
        self._is_broken = False

    async def update(self) -> None:
        """Write the card if it changed.

        A disk that does not take it is logged once.
        """
        async with self._lock:
            if self._is_broken:
                return
            try:
                await asyncio.to_thread(self._write, self._models.served(EVERY_MODEL))
            except OSError as error:
                self._is_broken = True
                _log.warning("commands of this user do not recognize the models of this server: %s", error)

    def close(self) -> None:
        """Remove the card."""
        self._file.close()

    def _write(self, models: Iterable[ServedModel]) -> None:
        served = tuple(
            ServedDirectory(
                name=model.name, path=str(model.facts.path.resolve()), fingerprint=self._fingerprint(model)
            )
            for model in models
        )
        card = ServerCard(pid=os.getpid(), url=self._address.url, models=served)
        if card != self._written:
            self._file.write(card)
            self._written = card

    def _fingerprint(self, model: ServedModel) -> str | None:
        """Return the fingerprint of a loaded model, read once after each load."""
        if model.memory is None:
            return None
        key = (model.facts.path, model.memory.loaded_at)
        if key not in self._fingerprints:
            self._fingerprints = {old: known for old, known in self._fingerprints.items() if old[0] != key[0]}
            self._fingerprints[key] = None
            with suppress(BrokenModel):
                self._fingerprints[key] = fingerprint(model.facts.path)
        return self._fingerprints[key]
