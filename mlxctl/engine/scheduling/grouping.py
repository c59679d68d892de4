"""Decode groups: which rows share a batch. Pure arithmetic over lengths.

Rows of a batch are padded to the longest one, and each further batch reads the weights once more. So groups
are joined while all padding of the batch costs less memory traffic than the weights. Short rows that come one
after the other could each afford the padding to a long row, but not all of them together.
"""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Lengths:
    """Number of rows of a group, longest row and sum, in tokens."""

    num_rows: int
    longest: int
    total: int

    @classmethod
    def of(cls, lengths: Sequence[int]) -> "Lengths":
        """Return the summary of these row lengths (at least one)."""
        return cls(len(lengths), max(lengths), sum(lengths))

    @property
    def padding(self) -> int:
        """Padding tokens that a step reads."""
        return self.num_rows * self.longest - self.total

    def joined(self, other: "Lengths") -> "Lengths":
        """Return the summary of both groups as one."""
        return Lengths(
            self.num_rows + other.num_rows, max(self.longest, other.longest), self.total + other.total
        )


def plan_joins(groups: Sequence[Sequence[int]], *, affordable_padding_tokens: int) -> list[list[int]]:
    """Return which `groups` to join, as lists of group indices, longest first.

    Each group is a list of row lengths. Groups are never split: that costs a copy and gains nothing, since
    padding does not grow while rows decode.
    """
    summaries = [Lengths.of(group) for group in groups]
    order = sorted(range(len(groups)), key=lambda index: (-summaries[index].longest, index))
    plan: list[tuple[Lengths, list[int]]] = []
    for index in order:
        if plan:
            summary, members = plan[-1]
            joined = summary.joined(summaries[index])
            if joined.padding <= affordable_padding_tokens:
                plan[-1] = (joined, [*members, index])
                continue
        plan.append((summaries[index], [index]))
    return [members for _, members in plan]


def affordable_padding(*, weights_bytes: int, kv_bytes_per_token: int) -> int:
    """Return how many padding tokens cost as much traffic as the weights."""
    if kv_bytes_per_token == 0:
        return 1 << 62
    return weights_bytes // kv_bytes_per_token
