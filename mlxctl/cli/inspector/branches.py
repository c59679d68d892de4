"""Cached conversations as a tree of branches, shared to the token. Pure.

The cache keeps chunks of up to 512 tokens. A branch is a run of tokens without a fork: part of a chunk that
several conversations begin with, or several chunks.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from mlxctl.cli.inspector.cached_chunk import ListedChunk
from mlxctl.cli.inspector.labels import NO_MARKERS, UserMarkers, label_of
from mlxctl.ir.errors import InvalidRequest


@dataclass(slots=True, kw_only=True, eq=False)
class Branch:
    """A run of tokens from `start` on, and its continuations.

    The most recently used continuation is first. `chunks` are those that end in it, `through` all that it
    touches. `text` is None if the tokenizer is unknown; `label` is the beginning of its conversation. The
    bytes of a chunk are assigned to the branches of its tokens.
    """

    start: int
    num_tokens: int = 0
    chunks: list[ListedChunk] = field(default_factory=list)
    through: list[ListedChunk] = field(default_factory=list)
    text: str | None = ""
    label: str = ""
    memory_bytes: int = 0
    disk_bytes: int = 0
    branches: "list[Branch]" = field(default_factory=list)

    @property
    def key(self) -> str | None:
        """Key of its last chunk, which identifies everything up to there."""
        return self.chunks[-1].key if self.chunks else None

    @property
    def end(self) -> int:
        """Position after its last token."""
        return self.start + self.num_tokens

    @property
    def num_conversations(self) -> int:
        """Number of conversations that begin with it."""
        return sum(not path[-1].branches for path in self.walk())

    @property
    def num_hits(self) -> int | None:
        """Number of times it was reused; None on disk alone."""
        return max((chunk.num_hits for chunk in self.through if chunk.num_hits is not None), default=None)

    @property
    def used_at(self) -> float | None:
        """Time of its last use."""
        return max((chunk.used_at for chunk in self.through if chunk.used_at is not None), default=None)

    @property
    def is_pinned(self) -> bool:
        """Whether it is exempt from eviction."""
        return any(chunk.is_pinned for chunk in self.through)

    @property
    def tier(self) -> str:
        """Where it is stored: memory, disk or both."""
        tiers = [("memory", self.memory_bytes), ("disk", self.disk_bytes)]
        return " + ".join(name for name, num_bytes in tiers if num_bytes) or "nowhere"

    def walk(self, parents: "tuple[Branch, ...]" = ()) -> "Iterator[tuple[Branch, ...]]":
        """Yield every path from here to a branch, the branch last."""
        path = (*parents, self)
        yield path
        for branch in self.branches:
            yield from branch.walk(path)

    def as_dict(self) -> dict[str, Any]:
        """Return it for JSON, with its continuations."""
        return {
            "key": self.key,
            "label": self.label,
            "start": self.start,
            "num_tokens": self.num_tokens,
            "num_conversations": self.num_conversations,
            "memory_bytes": self.memory_bytes,
            "disk_bytes": self.disk_bytes,
            "num_hits": self.num_hits,
            "used_at": self.used_at,
            "is_pinned": self.is_pinned,
            "branches": [branch.as_dict() for branch in self.branches],
        }


def build_trees(
    chunks: Iterable[ListedChunk], markers: Mapping[str, UserMarkers] | None = None
) -> "dict[str, list[Branch]]":
    """Return trees by model name, most recently used first.

    Without a name, the beginning of the namespace is used. `markers` are by model.
    """
    found = list(chunks)
    keys = {chunk.key for chunk in found}
    children: dict[str | None, list[ListedChunk]] = {}
    for chunk in reversed(found):
        # A parent that was dropped between two pages leaves its children as separate trees.
        children.setdefault(chunk.parent if chunk.parent in keys else None, []).append(chunk)
    roots: dict[tuple[str, str], list[ListedChunk]] = {}
    for root in children.get(None, []):
        name = root.model or f"weights {root.namespace[:8]}"
        roots.setdefault((name, f"{root.namespace} {root.parent} {root.start}"), []).append(root)
    trees: dict[str, list[Branch]] = {}
    for (name, _), firsts in roots.items():
        builder = _Builder(children, (markers or {}).get(name, NO_MARKERS))
        trees.setdefault(name, []).extend(
            builder.grow([_ChunkSuffix(chunk) for chunk in firsts], firsts[0].start, "")
        )
        builder.assign_bytes()
    return trees


def find_branch(trees: "dict[str, list[Branch]]", prefix: str) -> "tuple[Branch, ...]":
    """Return the path to the branch with this prefix of a key.

    Raises InvalidRequest.
    """
    paths = [path for branches in trees.values() for tree in branches for path in tree.walk()]
    fitting = [path for path in paths if any(chunk.key.startswith(prefix) for chunk in path[-1].chunks)]
    if len(fitting) != 1 or not prefix:
        what = "no branch has" if not fitting else f"{len(fitting)} branches have"
        raise InvalidRequest(
            f"{what} a key that begins with {prefix!r}; `mlxctl cache ls` lists them", param="key"
        )
    return fitting[0]


def first_keys(branch: Branch) -> list[str]:
    """Return the keys of a branch's chunks without a parent in it.

    Dropping these drops the whole branch.
    """
    own = {chunk.key for chunk in branch.chunks}
    return [chunk.key for chunk in branch.chunks if chunk.parent not in own]


def path_text(path: "Sequence[Branch]") -> str | None:
    """Return the text of a path; None if unknown."""
    texts = [branch.text for branch in path]
    return None if None in texts else "".join(text for text in texts if text is not None)


def num_common(one: Sequence[object], other: Sequence[object]) -> int:
    """Return the number of equal leading elements."""
    pairs = zip(one, other, strict=False)
    return next(
        (index for index, (first, second) in enumerate(pairs) if first != second), min(len(one), len(other))
    )


@dataclass(slots=True)
class _ChunkSuffix:
    """Rest of a chunk, from token `position` and character `char` on."""

    chunk: ListedChunk
    position: int = 0
    char: int = 0

    @property
    def next_token(self) -> object:
        # A chunk with unknown tokens shares nothing with others.
        return self.chunk.token_ids[self.position] if self.chunk.token_ids else self.chunk.key


class _Builder:
    """Builds the branches of one model."""

    def __init__(self, children: Mapping[str | None, Sequence[ListedChunk]], markers: UserMarkers) -> None:
        self._children = children
        self._markers = markers
        self._parts: dict[str, tuple[ListedChunk, list[tuple[Branch, int]]]] = {}

    def grow(self, items: Sequence[_ChunkSuffix], start: int, before: str | None) -> list[Branch]:
        """Return a branch for each distinct token at `start`.

        `before` is the text up to there.
        """
        return [self._branch(group, start, before) for group in _grouped(items)]

    def assign_bytes(self) -> None:
        """Assign each chunk's bytes to its branches.

        Bytes that siblings share are stored once and assigned to one of them, so a chunk's own end comes
        first.
        """
        for name in ("memory_bytes", "disk_bytes"):
            rate = max(
                (
                    getattr(chunk, name) / chunk.num_tokens
                    for chunk, _ in self._parts.values()
                    if chunk.num_tokens
                ),
                default=0,
            )
            for chunk, parts in self._parts.values():
                left = getattr(chunk, name)
                for branch, num_tokens in reversed(parts[1:]):
                    taken = min(left, round(rate * num_tokens))
                    setattr(branch, name, getattr(branch, name) + taken)
                    left -= taken
                setattr(parts[0][0], name, getattr(parts[0][0], name) + left)

    def _branch(self, group: list[_ChunkSuffix], start: int, before: str | None) -> Branch:
        branch = Branch(start=start)
        while True:
            num_tokens, continuations = self._take(branch, group)
            branch.num_tokens += num_tokens
            groups = _grouped(continuations)
            if len(groups) != 1:
                break
            group = groups[0]
        whole = None if before is None or branch.text is None else before + branch.text
        branch.label = label_of(branch.text, before, self._markers)
        branch.branches = self.grow(continuations, branch.end, whole)
        return branch

    def _take(self, branch: Branch, group: list[_ChunkSuffix]) -> tuple[int, list[_ChunkSuffix]]:
        """Move the shared beginning of a group into the branch.

        Returns its number of tokens and the continuations.
        """
        num_tokens = min(_num_alike(group[0], other) for other in group)
        ended = [item for item in group if item.position + num_tokens == item.chunk.num_tokens]
        num_chars = _num_alike_chars(group, ended)
        first = group[0]
        if num_chars is None or branch.text is None or first.chunk.text is None:
            branch.text = None
        else:
            branch.text += first.chunk.text[first.char : num_chars]
        continuations: list[_ChunkSuffix] = []
        for item in group:
            branch.through.append(item.chunk)
            self._parts.setdefault(item.chunk.key, (item.chunk, []))[1].append((branch, num_tokens))
            if item in ended:
                branch.chunks.append(item.chunk)
                continuations += [_ChunkSuffix(child) for child in self._children.get(item.chunk.key, ())]
            else:
                continuations.append(
                    _ChunkSuffix(item.chunk, item.position + num_tokens, max(item.char, num_chars or 0))
                )
        return num_tokens, continuations


def _grouped(items: Sequence[_ChunkSuffix]) -> list[list[_ChunkSuffix]]:
    groups: dict[object, list[_ChunkSuffix]] = {}
    for item in items:
        groups.setdefault(item.next_token, []).append(item)
    return list(groups.values())


def _num_alike(one: _ChunkSuffix, other: _ChunkSuffix) -> int:
    if one is other or not one.chunk.token_ids or not other.chunk.token_ids:
        return min(one.chunk.num_tokens - one.position, other.chunk.num_tokens - other.position)
    return num_common(one.chunk.token_ids[one.position :], other.chunk.token_ids[other.position :])


def _num_alike_chars(group: Sequence[_ChunkSuffix], ended: Sequence[_ChunkSuffix]) -> int | None:
    """Return up to where the texts of a group agree.

    One that ends here agrees to its end.
    """
    texts = [item.chunk.text for item in (ended or group)]
    known = sorted(text for text in texts if text is not None)
    if len(known) < len(texts):
        return None
    # The first and last in sort order differ most.
    return len(known[0]) if len(known) == 1 else min(num_common(one, other) for one, other in pairwise(known))
