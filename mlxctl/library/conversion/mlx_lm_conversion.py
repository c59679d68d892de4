"""Converts a model with mlx-lm, in a process of its own."""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple

from mlxctl import __version__
from mlxctl.ir.errors import ConversionFailed
from mlxctl.library import describe_model, read_model, this_machine
from mlxctl.library.conversion.new_directory import check_room, new_model_directory
from mlxctl.library.quantization import find_quantization
from mlxctl.library.weights import Weights
from mlxctl.state.installed import version_of

RECIPES: Final = ("mixed_2_6", "mixed_3_4", "mixed_3_6", "mixed_4_6")
DTYPES: Final = ("float16", "bfloat16", "float32")
MODES: Final = ("affine", "mxfp4", "nvfp4", "mxfp8")
BITS: Final = (2, 3, 4, 5, 6, 8)
GROUP_SIZES: Final = (32, 64, 128)

_DEFAULT_BITS, _DEFAULT_GROUP_SIZE = 4, 64
_FLOAT_BYTES: Final = {"float16": 2, "bfloat16": 2, "float32": 4}
# Bits of a weight, its share of the scales included.
_MODE_BITS: Final = {"mxfp4": 4.25, "nvfp4": 4.5, "mxfp8": 8.25}
_RECIPE_BITS = 6
# Norms and such stay floats.
_MARGIN = 1.02
_POLL_SECONDS = 0.2
_MAX_ERROR_CHARACTERS = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class Conversion:
    """What mlx-lm does with the weights, in its own terms.

    Without any field but `dtype`, and with `dtype` given, they are not quantized. Raises ConversionFailed for
    fields that exclude each other.
    """

    bits: int | None = None
    group_size: int | None = None
    mode: str | None = None
    recipe: str | None = None
    dtype: str | None = None

    def __post_init__(self) -> None:
        for name, value, allowed in (
            ("bits", self.bits, BITS),
            ("group-size", self.group_size, GROUP_SIZES),
            ("mode", self.mode, MODES),
            ("recipe", self.recipe, RECIPES),
            ("dtype", self.dtype, DTYPES),
        ):
            if value is not None and value not in allowed:
                raise ConversionFailed(
                    str(value), f"--{name} {value} is unknown; allowed are {', '.join(map(str, allowed))}"
                )
        if self.recipe is not None and (self.bits or self.mode not in (None, "affine")):
            raise ConversionFailed(self.recipe, "--recipe chooses bits and mode; leave out --bits and --mode")
        if self.mode not in (None, "affine") and (self.bits or self.group_size):
            raise ConversionFailed(
                str(self.mode), f"--mode {self.mode} has its own --bits and --group-size; leave them out"
            )

    @property
    def quantizes(self) -> bool:
        """Whether weights are quantized."""
        return self.dtype is None or any((self.bits, self.group_size, self.mode, self.recipe))

    @property
    def label(self) -> str:
        """A word for the name of the new model."""
        if not self.quantizes:
            return str(self.dtype)
        if self.mode not in (None, "affine"):
            return str(self.mode)
        return self.recipe or f"{self.bits or _DEFAULT_BITS}bit"

    @property
    def description(self) -> str:
        """The options in words, for the card."""
        if not self.quantizes:
            return f"not quantized, {self.dtype}"
        if self.mode not in (None, "affine"):
            words = f"mode {self.mode}"
        else:
            group = f"groups of {self.group_size or _DEFAULT_GROUP_SIZE}"
            words = (
                f"recipe {self.recipe}, {group}"
                if self.recipe
                else f"{self.bits or _DEFAULT_BITS} bits, {group}"
            )
        return words + (f", other weights {self.dtype}" if self.dtype else "")

    def arguments(self) -> dict[str, Any]:
        """Return arguments of `mlx_lm.convert`."""
        is_affine = self.mode in (None, "affine")
        return {
            "quantize": self.quantizes,
            "q_bits": (self.bits or _DEFAULT_BITS) if is_affine else None,
            "q_group_size": (self.group_size or _DEFAULT_GROUP_SIZE) if is_affine else None,
            "q_mode": self.mode or "affine",
            "quant_predicate": self.recipe,
            "dtype": self.dtype,
        }

    def num_bytes(self, num_parameters: int) -> int:
        """Return the size of the new weights; for recipes an upper bound."""
        if not self.quantizes:
            return num_parameters * _FLOAT_BYTES[str(self.dtype)]
        bits = _MODE_BITS.get(self.mode or "")
        if bits is None:
            whole = _RECIPE_BITS if self.recipe else self.bits or _DEFAULT_BITS
            scale_bits = 64 if self.dtype == "float32" else 32
            bits = whole + scale_bits / (self.group_size or _DEFAULT_GROUP_SIZE)
        return int(num_parameters * bits / 8 * _MARGIN)


class ConvertedModel(NamedTuple):
    """The bytes of the new weights, and what is left out."""

    num_bytes: int
    notes: tuple[str, ...]


def convert_model(
    source: Path, target: Path, conversion: Conversion, *, origin: str, progress: Callable[[int, int], None]
) -> ConvertedModel:
    """Convert a model directory.

    `progress` is called with the written bytes, and the expected ones. Raises ModelError.
    """
    weights = _checked_weights(source, origin)
    num_bytes = conversion.num_bytes(weights.num_parameters)
    notes = ("mlx-lm leaves out the part for images",) if weights.has_vision_tower else ()
    check_room(num_bytes)
    with new_model_directory(target) as directory:
        made = directory / "made"
        _run(source, made, conversion, lambda: progress(_weight_bytes(made), num_bytes))
        _drop(made)
        for file in made.iterdir():
            file.rename(directory / file.name)
        made.rmdir()
        (directory / "README.md").write_text(
            _card(target.name, source, origin, conversion, notes), encoding="utf-8"
        )
        if (problem := describe_model(directory, name=target.name).problem) is not None:
            raise ConversionFailed(source, f"the converted model cannot be used: {problem}")
        return ConvertedModel(_weight_bytes(directory), notes)


def _checked_weights(source: Path, origin: str) -> Weights:
    """Return the weights of a model that can be converted.

    Raises ModelError for another one.
    """
    facts = read_model(source)
    quantization = find_quantization(facts.config)
    if quantization is not None:
        raise ConversionFailed(
            source, f"{origin!r} is quantized already ({quantization.label}); convert the original model"
        )
    model = describe_model(source, name=origin)
    if "mlx-lm" not in (model.runtimes or ()):
        raise ConversionFailed(
            source, f"mlx-lm {version_of('mlx-lm')} does not support the model_type {facts.model_type!r}"
        )
    if model.weights is None or model.problem is not None:
        raise ConversionFailed(source, model.problem or f"{origin!r} has no weights")
    return model.weights


def _run(source: Path, made: Path, conversion: Conversion, poll: Callable[[], None]) -> None:
    """Run mlx-lm until it has made the directory. Raises ConversionFailed.

    The process ends with this one.
    """
    environment = {**os.environ, "HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1"}
    task = {
        "source": str(source),
        "made": str(made),
        "memory_bytes": this_machine().usable_bytes,
        **conversion.arguments(),
    }
    with tempfile.TemporaryFile() as log:
        process = subprocess.Popen(  # noqa: S603 -- our own command
            [sys.executable, "-m", "mlxctl.engine.conversion_process", json.dumps(task)],
            env=environment,
            stdin=subprocess.PIPE,
            stdout=log,
            stderr=log,
            # A Ctrl-C in the terminal is for this process, which ends the other one.
            start_new_session=True,
        )
        try:
            while not _has_ended(process):
                poll()
        finally:
            process.kill()
            process.communicate()
        if process.returncode != 0:
            log.seek(0)
            lines = log.read().decode("utf-8", "replace").splitlines()
            raise ConversionFailed(source, f"mlx-lm cannot convert it: {_reason(lines, process.returncode)}")


def _has_ended(process: "subprocess.Popen[bytes]") -> bool:
    with suppress(subprocess.TimeoutExpired):
        process.wait(_POLL_SECONDS)
    return process.returncode is not None


def _reason(lines: list[str], returncode: int) -> str:
    """Return the last line of a log, which has the error."""
    last = next((line.strip() for line in reversed(lines) if line.strip()), "")
    return last[:_MAX_ERROR_CHARACTERS] or f"its process ended with {returncode}"


def _drop(made: Path) -> None:
    """Remove code of the source, and mlx-lm's card."""
    for file in (*made.glob("*.py"), made / "README.md"):
        file.unlink(missing_ok=True)


def _weight_bytes(directory: Path) -> int:
    return sum(file.stat().st_size for file in directory.glob("*.safetensors"))


def _card(name: str, source: Path, origin: str, conversion: Conversion, notes: tuple[str, ...]) -> str:
    """Return the content of README.md."""
    revision = source.name if source.parent.name == "snapshots" else None
    fields = {key: value for key, value in asdict(conversion).items() if value is not None}
    lines = [
        f"# {name}",
        "",
        f"Converted by mlxctl {__version__} with mlx-lm {version_of('mlx-lm')} from `{origin}`.",
        "",
        *([f"- Revision: `{revision}`"] if revision else []),
        f"- Weights: {conversion.description}",
        *([f"- Options: `{json.dumps(fields)}`"] if fields else []),
        *(f"- {note}" for note in notes),
    ]
    return "\n".join(lines) + "\n"
