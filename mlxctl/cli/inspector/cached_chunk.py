"""Chunk of the prefix cache, as listed. Pure."""

from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedChunk:
    """A run of tokens from `start` of a prompt.

    Times are unix seconds. On disk, hits are not counted and only the order of use is known: `num_hits` and
    `used_at` are None. Tokens of an image are negative numbers made of its digest; `token_ids` are None if a
    server does not list them.
    """

    key: str
    parent: str | None
    model: str | None
    namespace: str
    start: int
    num_tokens: int
    text: str | None
    memory_bytes: int
    disk_bytes: int
    checkpoints: list[int]
    num_hits: int | None
    used_at: float | None
    expires_at: float | None
    is_pinned: bool
    is_in_use: bool
    token_ids: list[int] | None = None

    def as_dict(self) -> dict[str, Any]:
        """Return it for JSON, without its tokens."""
        return {name: value for name, value in asdict(self).items() if name != "token_ids"}
