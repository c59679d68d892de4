"""How large one page of a list may be, so that no answer grows with what callers keep."""

from collections.abc import Sequence
from itertools import accumulate

MAX_PAGE_BYTES = 4 << 20
"""What the entries of one page may take together; a page ends before the entry that goes beyond it, but has
at least one.
"""


def num_fitting(sizes: Sequence[int]) -> int:
    """Return how many entries of these sizes in bytes a page has room for: at least one, if there is one."""
    return max(1, sum(total <= MAX_PAGE_BYTES for total in accumulate(sizes))) if sizes else 0
