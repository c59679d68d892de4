"""What of the models is in memory, and who waits for one: plain values, for people and monitors."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class ResidentFacts:
    """A model that is in memory; `idle_seconds` is 0 while it has requests.

    Each token of a conversation takes `kv_bytes_per_token`, kept in `kv_bits`; None of them is as it was
    computed.
    """

    name: str
    weights_bytes: int
    kv_bytes_per_token: int
    kv_bits: int | None
    num_requests: int
    idle_seconds: float
    is_pinned: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolFacts:
    """Counters since the start of the server; `max_models` is None where only memory limits how many there
    are.
    """

    num_waiting: int
    num_loads: int
    num_evictions: int
    max_models: int | None
    models: tuple[ResidentFacts, ...]
