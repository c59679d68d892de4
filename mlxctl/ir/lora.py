"""LoRA adapters: what requests choose and the engine mounts.

Pure values.
"""

import hashlib
from collections.abc import Iterable
from pathlib import Path
from typing import Literal

import msgspec

MAX_STACKED_ADAPTERS = 4
"""Most adapters of one request."""

LoraFormat = Literal["mlx-lm", "peft"]


class LoraChoice(msgspec.Struct, frozen=True, kw_only=True):
    """An adapter of a request; `scale` multiplies the adapter's own scale."""

    name: str
    scale: float = 1.0


class LoraModule(msgspec.Struct, frozen=True, kw_only=True):
    """One adapted layer of an adapter.

    Its path in the model, the tensors A and B in the adapter's file, and for DoRA that of the magnitudes.
    `scale` is this layer's, which differs from the adapter's only with PEFT's patterns.
    """

    path: str
    a: str
    b: str
    rank: int
    scale: float
    magnitude: str = ""


class LoraSpec(msgspec.Struct, frozen=True, kw_only=True):
    """An adapter as the engine mounts it.

    A layer computes `y + scale * (x A) B`. `rank` is the highest of its layers. `digest` (SHA-256) covers the
    weights and everything else that determines the result; `num_bytes` is the size of the file.
    """

    name: str
    file: Path
    format: LoraFormat
    rank: int
    scale: float
    num_bytes: int
    digest: bytes
    modules: tuple[LoraModule, ...]

    @property
    def is_dora(self) -> bool:
        """Whether its layers have magnitudes (DoRA)."""
        return any(module.magnitude for module in self.modules)


def stack_digest(chosen: Iterable[tuple[bytes, float]]) -> bytes:
    """Return the digest of a request's adapters, empty for none.

    In order, by digest and scale.
    """
    parts = [digest + scale.hex().encode() for digest, scale in chosen]
    return hashlib.sha256(b"".join(parts)).digest() if parts else b""
