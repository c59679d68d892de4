"""Models that fit a machine, from a small catalog of published figures.

Pure but for reading the catalog.
"""

import tomllib
from pathlib import Path

from msgspec import Struct, convert

from mlxctl.library.fit import CPU_MAX_PARAMETERS
from mlxctl.library.machine import Machine

# Assumed share of prefill memory, not measured. `mlxctl models fit` estimates it from the real
# configuration.
_TRANSIENT_SHARE = 0.1


class CatalogEntry(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A model of the catalog.

    Parameters in billions, key-value bytes for each token. An audio model has no context.
    """

    repository: str
    purpose: str
    parameters: float
    active_parameters: float
    bits_per_weight: float
    kv_bytes_per_token: int = 0
    context_length: int = 0

    @property
    def is_audio(self) -> bool:
        """Whether it speaks or transcribes."""
        return self.context_length == 0

    @property
    def is_for_cpu(self) -> bool:
        """Whether a CPU is fast enough; a GPU has better writers."""
        return self.bits_per_weight >= 16 and self.parameters * 1e9 <= CPU_MAX_PARAMETERS

    @property
    def weights_bytes(self) -> int:
        """The estimated size of the weights."""
        return int(self.parameters * 1e9 * self.bits_per_weight / 8)


class Recommendation(Struct, frozen=True, kw_only=True):
    """A model that fits: all bytes are estimates.

    `max_context_tokens` is what memory and model allow. `max_tokens_per_second` is memory bandwidth divided
    by the bytes of the active weights, which real speed stays below; None where the bandwidth is not known.
    An audio model has neither.
    `measured_tokens_per_second` is there for a downloaded model that was measured on this machine.
    """

    repository: str
    purpose: str
    weights_bytes: int
    needed_bytes: int
    context_tokens: int
    max_context_tokens: int | None
    max_tokens_per_second: float | None
    measured_tokens_per_second: float | None = None


def read_catalog() -> list[CatalogEntry]:
    """Return the catalog that ships with the package."""
    text = Path(__file__).with_name("recommended.toml").read_text(encoding="utf-8")
    return convert(tomllib.loads(text)["model"], list[CatalogEntry])


def recommend(machine: Machine, *, context_tokens: int) -> list[Recommendation]:
    """Return catalog models that fit with a conversation of this length.

    The one with most parameters first. Without a GPU they are the few that a CPU is fast enough for.
    """
    found = []
    on_cpu = machine.computes_on_cpu
    catalog = [
        entry for entry in read_catalog() if entry.is_for_cpu == on_cpu or (entry.is_audio and not on_cpu)
    ]
    for entry in sorted(catalog, key=lambda entry: -entry.parameters):
        fixed = int(entry.weights_bytes * (1 + _TRANSIENT_SHARE))
        needed = fixed + context_tokens * entry.kv_bytes_per_token
        if needed > machine.usable_bytes or (context_tokens > entry.context_length and not entry.is_audio):
            continue
        bandwidth = None if entry.is_audio else machine.bandwidth_bytes_per_second
        active_bytes = entry.active_parameters * 1e9 * entry.bits_per_weight / 8
        found.append(
            Recommendation(
                repository=entry.repository,
                purpose=entry.purpose,
                weights_bytes=entry.weights_bytes,
                needed_bytes=needed,
                context_tokens=context_tokens,
                max_context_tokens=None
                if entry.is_audio
                else min(entry.context_length, (machine.usable_bytes - fixed) // entry.kv_bytes_per_token),
                max_tokens_per_second=bandwidth / active_bytes if bandwidth else None,
            )
        )
    return found
