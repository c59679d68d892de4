"""Caches and records that other ranks hold as well, each its share.

MLX thread only. What is done to them on rank 0 is announced to the other ranks, which repeat it.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Protocol

from mlxctl.engine.host.failures import FOREIGN_ERRORS
from mlxctl.engine.wire.rank_messages import RankOperation


class RanksBrokenError(OSError):
    """A pass of all ranks failed, so their states may differ."""


class Followers(Protocol):
    """The other ranks, as they are seen from rank 0."""

    def send(self, operation: RankOperation) -> None:
        """Send an operation to all of them. Raises RanksBrokenError."""

    def new_handle(self) -> "Handle":
        """Return the number of a new object."""

    def release(self, number: int) -> None:
        """Free an object before the next operation. From any thread."""


class Handle:
    """The number of an object on all ranks.

    It is released with the last reference to it.
    """

    __slots__ = ("followers", "number")

    def __init__(self, number: int, followers: "Followers") -> None:
        self.number = number
        self.followers = followers

    def __del__(self) -> None:
        self.followers.release(self.number)


class SharedCaches(list[Any]):
    """Caches of a sequence or batch, one object per layer."""

    __slots__ = ("handle",)

    def __init__(self, followers: Followers, layers: Sequence[Any] = ()) -> None:
        super().__init__(layers)
        self.handle = followers.new_handle()


def announce(caches: list[Any], operation: Callable[[int], RankOperation]) -> None:
    """Announce what is done to caches, if other ranks hold them.

    `operation` gets their number.
    """
    if isinstance(caches, SharedCaches):
        caches.handle.followers.send(operation(caches.handle.number))


@contextmanager
def announced(caches: list[Any], operation: Callable[[int], RankOperation]) -> Iterator[None]:
    """Announce a pass, and run the block that computes it.

    Raises RanksBrokenError when it fails on shared caches: other ranks may wait in it.
    """
    announce(caches, operation)
    try:
        yield
    except FOREIGN_ERRORS as error:
        if isinstance(caches, SharedCaches):
            raise RanksBrokenError(f"a pass of all ranks failed: {error}") from error
        raise


def successor(caches: list[Any], operation: Callable[[int], RankOperation]) -> list[Any]:
    """Return empty caches that follow from others, shared like these.

    `operation` gets the number of the new ones.
    """
    if not isinstance(caches, SharedCaches):
        return []
    followers = caches.handle.followers
    following = SharedCaches(followers)
    followers.send(operation(following.handle.number))
    return following


def number_of(caches: Sequence[Any]) -> int:
    """Return the number of shared caches."""
    assert isinstance(caches, SharedCaches), "caches of a group are shared"
    return caches.handle.number
