"""A stored result: measurements, environment, settings, completeness."""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import msgspec

from mlxctl.bench.figures import Better, Chart, Figure, Spread, Unit
from mlxctl.ir.errors import SettingsError

_MAX_FILE_BYTES = 64 * 1024**2


@dataclass(frozen=True, slots=True, kw_only=True)
class Measurement:
    """One figure of one target, with a value per round."""

    target: str
    name: str
    unit: Unit
    better: Better
    meaning: str
    is_detail: bool
    median: float
    lowest: float
    highest: float
    rounds: tuple[float, ...]

    @classmethod
    def of(cls, target: str, figure: Figure, rounds: Sequence[float]) -> "Measurement":
        return cls(
            target=target,
            name=figure.name,
            unit=figure.unit,
            better=figure.better,
            meaning=figure.meaning,
            is_detail=figure.is_detail,
            median=statistics.median(rounds),
            lowest=min(rounds),
            highest=max(rounds),
            rounds=tuple(rounds),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class PairedRatio:
    """A over B of one figure, round by round.

    Noise: the spread covers 1, there were too few rounds, or the ratio is close to 1.
    """

    name: str
    ratio: Spread
    is_noise: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineFacts:
    """What the engine of a server computes with; None is unknown.

    `backend` is cpu, metal or cuda, `device` the name of the chip, `blas` the library of the CPU backend.
    """

    backend: str | None = None
    device: str | None = None
    blas: str | None = None
    mlx_version: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredServer:
    """The identity of a measured server.

    None is what it does not tell. `number_format` is that of the model's weights, `version` that of mlxctl.
    """

    label: str
    name: str
    url: str
    model: str
    context_length: int | None
    num_parameters: int | None = None
    number_format: str | None = None
    version: str | None = None
    engine: EngineFacts = EngineFacts()


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientCost:
    """CPU time of the measuring client, as shares of one core.

    `per_thousand` is the share at 1,000 tokens/s. `was_bottleneck` says that the client was saturated and the
    server may be faster.
    """

    cpu_seconds: float
    wall_seconds: float
    num_tokens: int
    core_share: float
    per_thousand: float | None
    was_bottleneck: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Ceiling:
    """Predicted maximum tokens/s of one stream: each token reads all weights."""

    tokens_per_second: float
    context_tokens: int
    bandwidth_bytes_per_second: float
    source: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """One run of one scenario; `problem` is None for complete runs."""

    format: Literal[1] = 1
    scenario: str
    started: str
    is_partial: bool
    problem: str | None
    num_rounds: int
    num_rounds_wanted: int
    settings: dict[str, Any]
    environment: dict[str, Any]
    servers: tuple[MeasuredServer, ...]
    measurements: tuple[Measurement, ...]
    ratios: tuple[PairedRatio, ...]
    charts: tuple[Chart, ...]
    client: ClientCost
    ceiling: Ceiling | None
    notes: tuple[str, ...]

    def find(self, name: str, target: str = "A") -> Measurement | None:
        """Return a figure of a target; None when it was not measured."""
        return next(
            (found for found in self.measurements if (found.target, found.name) == (target, name)), None
        )


def encode_result(result: Result, *, is_pretty: bool = False) -> str:
    """Return the JSON document."""
    data = msgspec.json.encode(result)
    return (msgspec.json.format(data, indent=1) if is_pretty else data).decode()


def save_result(result: Result, path: Path) -> None:
    """Write the document and create its directory. Raises SettingsError."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(encode_result(result, is_pretty=True) + "\n", encoding="utf-8")
    except OSError as error:
        raise SettingsError(f"the result cannot be written to {str(path)!r}: {error.strerror}") from None


def load_result(path: Path) -> Result:
    """Read a stored result. Raises SettingsError."""
    try:
        if path.stat().st_size > _MAX_FILE_BYTES:
            raise SettingsError(f"{str(path)!r} is too large to be a result of `mlxctl bench`")
        return msgspec.json.decode(path.read_bytes(), type=Result)
    except OSError as error:
        raise SettingsError(f"{str(path)!r} cannot be read: {error.strerror}") from None
    except msgspec.MsgspecError as error:
        raise SettingsError(f"{str(path)!r} is not a result of `mlxctl bench`: {error}") from None
