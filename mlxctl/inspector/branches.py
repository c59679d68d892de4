"""Cached conversations as a tree of branches, shared to the token. Pure.

The cache keeps chunks of up to 512 tokens. A branch is a run of tokens without a fork: it may be a part of a
chunk, which several conversations begin with, or go over many chunks.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from mlxctl.errors import InvalidRequest
from mlxctl.inspector.cached_chunk import CachedChunk
from mlxctl.inspector.labels import NO_MARKERS, UserMarkers, label_of


@dataclass(slots=True, kw_only=True, eq=False)
class Branch:
    """A run of tokens from `start` on, and what goes on behind it, the most recently used first.

    `chunks` are those that end in it, `text` is what it says, None if its tokenizer is not known, `label` the
    first words of its conversation. The bytes of a chunk are told for the branches that its tokens are in.
    """

    start: int
    num_tokens: int = 0
    chunks: list[CachedChunk] = field(default_factory=list)
    through: list[CachedChunk] = field(default_factory=list)
    text: str | None = ""
    label: str = ""
    memory_bytes: int = 0
    disk_bytes: int = 0
    branches: "list[Branch]" = field(default_factory=list)

    @property
    def key(self) -> str | None:
        """The key of the last chunk that ends in it, which stands for everything up to there."""
        return self.chunks[-1].key if self.chunks else None

    @property
    def end(self) -> int:
        """Place behind its last token."""
        return self.start + self.num_tokens

    @property
    def num_conversations(self) -> int:
        """How many conversations begin with it."""
        return sum(not path[-1].branches for path in self.walk())

    @property
    def num_hits(self) -> int | None:
        """How often it was taken over; None on disk alone."""
        return max((chunk.num_hits for chunk in self.through if chunk.num_hits is not None), default=None)

    @property
    def used_at(self) -> float | None:
        """When it was used last."""
        return max((chunk.used_at for chunk in self.through if chunk.used_at is not None), default=None)

    @property
    def is_pinned(self) -> bool:
        """Whether it stays whatever the budget."""
        return any(chunk.is_pinned for chunk in self.through)

    @property
    def tier(self) -> str:
        """Where it is."""
        places = [("memory", self.memory_bytes), ("disk", self.disk_bytes)]
        return " + ".join(name for name, num_bytes in places if num_bytes) or "nowhere"

    def walk(self, parents: "tuple[Branch, ...]" = ()) -> "Iterator[tuple[Branch, ...]]":
        """Every path from here to a branch, the branch last."""
        path = (*parents, self)
        yield path
        for branch in self.branches:
            yield from branch.walk(path)

    def as_dict(self) -> dict[str, Any]:
        """Return it for JSON, with what branches off."""
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
    chunks: Iterable[CachedChunk], markers: Mapping[str, UserMarkers] | None = None
) -> "dict[str, list[Branch]]":
    """Return the trees by model (its name, or the beginning of its namespace), the most recently used first.

    `markers` say by model what its chat template writes before and behind a user's message.
    """
    found = list(chunks)
    keys = {chunk.key for chunk in found}
    children: dict[str | None, list[CachedChunk]] = {}
    for chunk in reversed(found):
        # A parent that was dropped between two pages leaves its children as trees of their own.
        children.setdefault(chunk.parent if chunk.parent in keys else None, []).append(chunk)
    roots: dict[tuple[str, str], list[CachedChunk]] = {}
    for root in children.get(None, []):
        name = root.model or f"weights {root.namespace[:8]}"
        roots.setdefault((name, f"{root.namespace} {root.parent} {root.start}"), []).append(root)
    trees: dict[str, list[Branch]] = {}
    for (name, _), firsts in roots.items():
        builder = _Builder(children, (markers or {}).get(name, NO_MARKERS))
        trees.setdefault(name, []).extend(
            builder.grow([_Item(chunk) for chunk in firsts], firsts[0].start, "")
        )
        builder.share_out_bytes()
    return trees


def find_branch(trees: "dict[str, list[Branch]]", prefix: str) -> "tuple[Branch, ...]":
    """Return the path to the one branch with a chunk whose key begins so. Raises InvalidRequest."""
    paths = [path for branches in trees.values() for tree in branches for path in tree.walk()]
    fitting = [path for path in paths if any(chunk.key.startswith(prefix) for chunk in path[-1].chunks)]
    if len(fitting) != 1 or not prefix:
        what = "no branch has" if not fitting else f"{len(fitting)} branches have"
        raise InvalidRequest(
            f"{what} a key that begins with {prefix!r}; `mlxctl cache ls` lists them", param="key"
        )
    return fitting[0]


def first_keys(branch: Branch) -> list[str]:
    """Return the keys of the chunks of a branch that go on from no other one of it: dropping these drops all
    of it.
    """
    own = {chunk.key for chunk in branch.chunks}
    return [chunk.key for chunk in branch.chunks if chunk.parent not in own]


def path_text(path: "Sequence[Branch]") -> str | None:
    """Return what all branches of a path say."""
    texts = [branch.text for branch in path]
    return None if None in texts else "".join(text for text in texts if text is not None)


def num_common(one: Sequence[object], other: Sequence[object]) -> int:
    """Return how many leading characters, or tokens, two sequences share."""
    pairs = zip(one, other, strict=False)
    return next(
        (index for index, (first, second) in enumerate(pairs) if first != second), min(len(one), len(other))
    )


@dataclass(slots=True)
class _Item:
    """What of a chunk is still to be put into the tree: its tokens from `place` on, its text from `char` on."""

    chunk: CachedChunk
    place: int = 0
    char: int = 0

    @property
    def next_token(self) -> object:
        # A chunk whose tokens are not known shares nothing with others.
        return self.chunk.token_ids[self.place] if self.chunk.token_ids else self.chunk.key


class _Builder:
    """Grows the branches of one model."""

    def __init__(self, children: Mapping[str | None, Sequence[CachedChunk]], markers: UserMarkers) -> None:
        self._children = children
        self._markers = markers
        self._parts: dict[str, tuple[CachedChunk, list[tuple[Branch, int]]]] = {}

    def grow(self, items: Sequence[_Item], start: int, before: str | None) -> list[Branch]:
        """Return a branch for each token that goes on at `start`; `before` is the text up to there."""
        return [self._branch(group, start, before) for group in _grouped(items)]

    def share_out_bytes(self) -> None:
        """Tell each chunk's bytes for the branches that it goes through.

        What siblings have in common is held once and told for one of them, so a chunk's own end comes first.
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

    def _branch(self, group: list[_Item], start: int, before: str | None) -> Branch:
        branch = Branch(start=start)
        while True:
            num_tokens, following = self._take(branch, group)
            branch.num_tokens += num_tokens
            groups = _grouped(following)
            if len(groups) != 1:
                break
            group = groups[0]
        whole = None if before is None or branch.text is None else before + branch.text
        branch.label = label_of(branch.text, before, self._markers)
        branch.branches = self.grow(following, branch.end, whole)
        return branch

    def _take(self, branch: Branch, group: list[_Item]) -> tuple[int, list[_Item]]:
        """Put what all of the group begin with into the branch; return its length and what goes on behind it."""
        num_tokens = min(_num_alike(group[0], other) for other in group)
        ended = [item for item in group if item.place + num_tokens == item.chunk.num_tokens]
        num_chars = _num_alike_chars(group, ended)
        first = group[0]
        if num_chars is None or branch.text is None or first.chunk.text is None:
            branch.text = None
        else:
            branch.text += first.chunk.text[first.char : num_chars]
        following: list[_Item] = []
        for item in group:
            branch.through.append(item.chunk)
            self._parts.setdefault(item.chunk.key, (item.chunk, []))[1].append((branch, num_tokens))
            if item in ended:
                branch.chunks.append(item.chunk)
                following += [_Item(child) for child in self._children.get(item.chunk.key, ())]
            else:
                following.append(_Item(item.chunk, item.place + num_tokens, max(item.char, num_chars or 0)))
        return num_tokens, following


def _grouped(items: Sequence[_Item]) -> list[list[_Item]]:
    groups: dict[object, list[_Item]] = {}
    for item in items:
        groups.setdefault(item.next_token, []).append(item)
    return list(groups.values())


def _num_alike(one: _Item, other: _Item) -> int:
    if one is other or not one.chunk.token_ids or not other.chunk.token_ids:
        return min(one.chunk.num_tokens - one.place, other.chunk.num_tokens - other.place)
    return num_common(one.chunk.token_ids[one.place :], other.chunk.token_ids[other.place :])


def _num_alike_chars(group: Sequence[_Item], ended: Sequence[_Item]) -> int | None:
    """Return up to where the texts of a group agree; one that ends here says everything that it says."""
    texts = [item.chunk.text for item in (ended or group)]
    known = sorted(text for text in texts if text is not None)
    if len(known) < len(texts):
        return None
    # In order, the ends differ most.
    return len(known[0]) if len(known) == 1 else min(num_common(one, other) for one, other in pairwise(known))
