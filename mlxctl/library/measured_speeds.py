"""Measured speeds of models on this machine, looked up by their files."""

import logging
import threading
from pathlib import Path

from mlxctl.ir.errors import BrokenModel, StoreError
from mlxctl.library.fingerprint import fingerprint
from mlxctl.library.machine import Machine
from mlxctl.state import locations
from mlxctl.state.stores import MeasuredSpeed, SpeedStore

_MAX_FINGERPRINTS = 1000

_log = logging.getLogger(__name__)


class MeasuredSpeeds:
    """Looks speeds up by a model's fingerprint, not by its name.

    Any thread; methods read files, so never call them on the event loop. An unusable store is logged once;
    then no model counts as measured.
    """

    def __init__(self, store: SpeedStore | None = None) -> None:
        self._store = store or SpeedStore(locations.speeds_file())
        self._lock = threading.Lock()
        self._fingerprints: dict[tuple[Path, int], str] = {}
        self._is_store_lost = False

    def of(self, path: Path, machine: Machine) -> MeasuredSpeed | None:
        """Return the speed of the model in `path`.

        None if it was never measured here.
        """
        try:
            return self._store.find(self._fingerprint(path), machine.label)
        except (BrokenModel, OSError):
            return None
        except StoreError as error:
            if not self._is_store_lost:
                self._is_store_lost = True
                _log.warning("measured speeds are not used: %s", error)
            return None

    def save(self, speed: MeasuredSpeed) -> None:
        """Store a speed. Raises StoreError."""
        self._store.save(speed)

    def close(self) -> None:
        """Close the store. Idempotent."""
        self._store.close()

    def _fingerprint(self, path: Path) -> str:
        # A changed configuration or a new weight file changes the directory's time.
        key = path, path.stat().st_mtime_ns
        with self._lock:
            found = self._fingerprints.get(key)
        if found is None:
            found = fingerprint(path)
            with self._lock:
                while len(self._fingerprints) >= _MAX_FINGERPRINTS:
                    del self._fingerprints[next(iter(self._fingerprints))]
                self._fingerprints[key] = found
        return found
