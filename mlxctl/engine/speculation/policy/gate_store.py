"""Measurements of speculative decoding on disk, for the next start.

They hold for this machine and reveal nothing about prompts or answers. MLX thread only.
"""

import contextlib
import logging
import os
import time
from pathlib import Path

import msgspec

from mlxctl.engine.speculation.policy.gate import Acceptance, PassSeconds, SpeculationGate

_log = logging.getLogger(__name__)

_FILE = "speculation.json"
_MAX_GATES = 64
_MAX_BYTES = 4 << 20
_SAVE_SECONDS = 30.0


class _StoredGate(msgspec.Struct):
    seconds: dict[str, PassSeconds] = {}
    acceptance: dict[int, Acceptance] = {}


class _StoredGates(msgspec.Struct):
    """All gates, last used ones at the end.

    Their keys are model digest and drafter.
    """

    version: int = 1
    gates: dict[str, _StoredGate] = {}


class GateStore:
    """Gates of models and drafters, from and to one file.

    Without a directory nothing is stored. A damaged file counts as none and is replaced.
    """

    def __init__(self, directory: Path | None) -> None:
        self._file = None if directory is None else directory / _FILE
        self._stored = self._read()
        self._open: dict[str, SpeculationGate] = {}
        self._saved_at = time.monotonic()

    def gate(self, model: str, drafter: str) -> SpeculationGate:
        """Return the gate of a drafter on a model.

        `model` is a digest of its weights.
        """
        key = f"{model}:{drafter}"
        if key not in self._open:
            gate = self._open[key] = SpeculationGate()
            if (stored := self._stored.gates.pop(key, None)) is not None:
                gate.seconds = {_class(name): costs.resumed() for name, costs in stored.seconds.items()}
                gate.acceptance = stored.acceptance
        return self._open[key]

    def save_sometimes(self) -> None:
        """Write the file, if the last time is a while ago."""
        if time.monotonic() - self._saved_at >= _SAVE_SECONDS:
            self.save()

    def save(self) -> None:
        """Write the file; a failure is logged once and changes nothing."""
        self._saved_at = time.monotonic()
        if self._file is None or not any(gate.seconds for gate in self._open.values()):
            return
        gates = self._stored.gates | {key: _stored(gate) for key, gate in self._open.items()}
        kept = dict(list(gates.items())[-_MAX_GATES:])
        try:
            self._file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            temporary = self._file.with_suffix(f".{os.getpid()}")
            temporary.write_bytes(msgspec.json.encode(_StoredGates(gates=kept)))
            temporary.replace(self._file)
        except OSError as error:
            _log.warning("speculation: measurements are not stored: %s", error)
            self._file = None

    def _read(self) -> _StoredGates:
        with contextlib.suppress(OSError, ValueError, msgspec.MsgspecError):
            if self._file is not None and self._file.is_file():
                with self._file.open("rb") as file:
                    stored = msgspec.json.decode(file.read(_MAX_BYTES), type=_StoredGates)
                for gate in stored.gates.values():
                    _check(gate)
                return stored
        return _StoredGates()


def _stored(gate: SpeculationGate) -> _StoredGate:
    return _StoredGate(
        {f"{rows}x{context}": costs for (rows, context), costs in gate.seconds.items()}, gate.acceptance
    )


def _class(name: str) -> tuple[int, int]:
    rows, context = name.split("x")
    return int(rows), int(context)


def _check(gate: _StoredGate) -> None:
    """Raise ValueError for values that no measurement gives."""
    for name, costs in gate.seconds.items():
        _class(name)
        means = [costs.plain, *costs.blocks.values()]
        if any(mean.seconds < 0 or mean.count < 0 for mean in means) or min(costs.blocks, default=1) < 1:
            raise ValueError(name)
        if costs.plain.count and not costs.plain.seconds > 0:
            raise ValueError(name)
    if any(not 0 <= each.accepted <= each.tested or not each.tested for each in gate.acceptance.values()):
        raise ValueError("acceptance")
