"""Pages of lists and deletions, as OpenAI writes them."""

from collections.abc import Sequence
from itertools import accumulate
from typing import Literal

from msgspec import Struct

from mlxctl.ir.errors import InvalidRequest

DEFAULT_PAGE_LIMIT = 20
MAX_PAGE_LIMIT = 100
MAX_PAGE_BYTES = 4 << 20
"""The most bytes of a page's entries; a page ends before the entry that exceeds it, but has at least one."""


class Deletion(Struct):
    """The object with this id is deleted."""

    id: str
    object: Literal["response", "agent"]
    deleted: Literal[True]


def parse_limit(limit: str | None, *, default: int = DEFAULT_PAGE_LIMIT, most: int = MAX_PAGE_LIMIT) -> int:
    """Return the query parameter `limit` of a list. Raises InvalidRequest."""
    if limit is None:
        return default
    if not (limit.isascii() and limit.isdigit() and len(limit) < 5 and 1 <= int(limit) <= most):
        raise InvalidRequest(f"limit must be a number from 1 to {most}", param="limit")
    return int(limit)


def num_fitting(sizes: Sequence[int]) -> int:
    """Return how many entries of these sizes in bytes fit a page.

    At least one, if there is one.
    """
    return max(1, sum(total <= MAX_PAGE_BYTES for total in accumulate(sizes))) if sizes else 0
