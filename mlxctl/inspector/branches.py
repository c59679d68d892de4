"""Chunks as a tree of branches: runs of chunks without a fork between them. Pure."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from mlxctl.errors import InvalidRequest
from mlxctl.inspector.server import CachedChunk


@dataclass(slots=True, kw_only=True)
class Branch:
    """A run of chunks, first to last, and what goes on behind it, the most recently used first.

    Chunks lie on a grid, so branches that part within one begin alike: for `num_common_characters` of their text.
    """

    chunks: list[CachedChunk]
    num_common_characters: int = 0
    branches: "list[Branch]" = field(default_factory=list)

    @property
    def key(self) -> str:
        """The key of its last chunk, which stands for everything up to there."""
        return self.chunks[-1].key

    @property
    def start(self) -> int:
        """Place of its first token."""
        return self.chunks[0].start

    @property
    def end(self) -> int:
        """Place behind its last token."""
        return self.chunks[-1].start + self.chunks[-1].num_tokens

    @property
    def memory_bytes(self) -> int:
        """Bytes in memory."""
        return sum(chunk.memory_bytes for chunk in self.chunks)

    @property
    def disk_bytes(self) -> int:
        """Bytes on disk."""
        return sum(chunk.disk_bytes for chunk in self.chunks)

    @property
    def num_hits(self) -> int | None:
        """How often its beginning was taken over; None where nobody counts."""
        return max((chunk.num_hits for chunk in self.chunks if chunk.num_hits is not None), default=None)

    @property
    def used_at(self) -> float | None:
        """When it was used last."""
        return max((chunk.used_at for chunk in self.chunks if chunk.used_at is not None), default=None)

    @property
    def is_pinned(self) -> bool:
        """Whether it stays whatever the budget."""
        return any(chunk.is_pinned for chunk in self.chunks)

    @property
    def tier(self) -> str:
        """Where it is."""
        places = [("memory", self.memory_bytes), ("disk", self.disk_bytes)]
        return " + ".join(name for name, num_bytes in places if num_bytes) or "nowhere"

    @property
    def text(self) -> str | None:
        """What it says; None if its tokenizer is not known."""
        texts = [chunk.text for chunk in self.chunks]
        return None if None in texts else "".join(text for text in texts if text is not None)

    def walk(self, parents: "tuple[Branch, ...]" = ()) -> "Iterator[tuple[Branch, ...]]":
        """Every path from here to a branch, the branch last."""
        path = (*parents, self)
        yield path
        for branch in self.branches:
            yield from branch.walk(path)


def build_trees(chunks: Iterable[CachedChunk]) -> "dict[str, list[Branch]]":
    """Return the trees by model (its name, or the beginning of its namespace), the most recently used first."""
    found = list(chunks)
    keys = {chunk.key for chunk in found}
    children: dict[str | None, list[CachedChunk]] = {}
    for chunk in reversed(found):
        # A parent that was dropped between two pages leaves its children as trees of their own.
        children.setdefault(chunk.parent if chunk.parent in keys else None, []).append(chunk)
    trees: dict[str, list[Branch]] = {}
    for root in children.get(None, []):
        trees.setdefault(root.model or f"weights {root.namespace[:8]}", []).append(_branch(root, children))
    return trees


def find_branch(trees: "dict[str, list[Branch]]", prefix: str) -> "tuple[Branch, ...]":
    """Return the path to the one branch with a chunk whose key begins so. Raises InvalidRequest."""
    paths = [path for branches in trees.values() for tree in branches for path in tree.walk()]
    fitting = [path for path in paths if any(chunk.key.startswith(prefix) for chunk in path[-1].chunks)]
    if len(fitting) != 1 or not prefix:
        what = "no branch has" if not fitting else f"{len(fitting)} branches have"
        raise InvalidRequest(f"{what} a key that begins with {prefix!r}; `mlxctl cache ls` lists them", param="key")
    return fitting[0]


def path_text(path: "Sequence[Branch]") -> str | None:
    """Return what all branches of a path say."""
    texts = [branch.text for branch in path]
    return None if None in texts else "".join(text for text in texts if text is not None)


def num_common(one: str, other: str) -> int:
    """Return how many leading characters two texts share."""
    pairs = zip(one, other, strict=False)
    return next((index for index, (first, second) in enumerate(pairs) if first != second), min(len(one), len(other)))


def _branch(first: CachedChunk, children: "dict[str | None, list[CachedChunk]]") -> Branch:
    run = [first]
    while len(following := children.get(run[-1].key, [])) == 1:
        run += following
    branches = [_branch(chunk, children) for chunk in children.get(run[-1].key, [])]
    _tell_apart(branches)
    return Branch(chunks=run, branches=branches)


def _tell_apart(branches: Sequence[Branch]) -> None:
    texts = [branch.text or "" for branch in branches]
    for branch, text in zip(branches, texts, strict=True):
        others = [other for other in texts if other is not text]
        branch.num_common_characters = max((num_common(text, other) for other in others), default=0)
