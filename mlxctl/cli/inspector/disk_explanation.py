"""How much of a prompt is on disk, and where it differs.

Pure.
"""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from mlxctl.ir.tokens import Salt, Tokens
from mlxctl.prefix_cache.disk.inspection import DiskEntry
from mlxctl.prefix_cache.entries import Checkpoint, PrefixMatch
from mlxctl.prefix_cache.index import PrefixIndex

_NUM_NEIGHBORS = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class DiskExplanation:
    """Match of a prompt with the disk.

    `num_known_tokens` of the prompt are on disk, `num_cached_tokens` can be reused: fewer if layers need a
    stored state that is missing. `before` is the text before the first token that is not on disk, `here` the
    text from it on, `there` the text on disk instead, None if nothing continues there. `place` names the
    message or tool of the difference; `message` and `tool` are their indexes.
    """

    model: str
    num_prompt_tokens: int
    num_cached_tokens: int
    num_known_tokens: int
    before: str | None
    here: str | None
    there: str | None
    place: str | None = None
    message: int | None = None
    tool: int | None = None

    def as_dict(self) -> dict[str, Any]:
        """Return it for JSON."""
        return asdict(self)


def explain_on_disk(
    entries: Sequence[DiskEntry],
    model: str,
    tokens: Tokens,
    text_of: Callable[[str, Tokens], str | None],
    *,
    salts: Sequence[Salt] = (),
    now: float,
) -> DiskExplanation:
    """Match a prompt against unexpired entries on disk of any caller."""
    index: PrefixIndex[None] = PrefixIndex(max_bytes=1, clock=lambda: now)
    own = [
        entry
        for entry in entries
        if entry.model == model and (entry.expires_at is None or entry.expires_at > now)
    ]
    for entry in sorted(own, key=lambda entry: entry.start):
        _add(index, entry)
    callers = {entry.salts[:1] for entry in own if entry.salts and not entry.salts[0].is_image} | {()}
    namespaces = {entry.namespace for entry in own}
    matches = [
        index.match(namespace, tokens, (*caller, *salts)) for namespace in namespaces for caller in callers
    ]
    best: PrefixMatch[None] = max(matches, key=lambda match: match.num_tokens, default=PrefixMatch(()))
    known = best.num_tokens
    there = _stored_continuation(best, own)
    return DiskExplanation(
        model=model,
        num_prompt_tokens=len(tokens),
        num_cached_tokens=_reusable_tokens(best, own, at_most=len(tokens) - 1),
        num_known_tokens=known,
        before=text_of(model, tokens[max(0, known - _NUM_NEIGHBORS) : known]),
        here=text_of(model, tokens[known : known + _NUM_NEIGHBORS]),
        there=text_of(model, there) if there else None,
    )


def _add(index: PrefixIndex[None], entry: DiskEntry) -> None:
    parent = index.find(entry.parent) if entry.parent is not None else None
    if parent is None and entry.parent is not None:
        return
    chunk = index.publish(entry.namespace, parent, entry.tokens, None, 0, entry.salts)
    for position in entry.positions:
        if chunk is not None and chunk.start < position <= chunk.end:
            index.add_checkpoint(chunk, Checkpoint(position, None, 0))


def _reusable_tokens(match: PrefixMatch[None], entries: Sequence[DiskEntry], *, at_most: int) -> int:
    if not any(entry.positions for entry in entries):
        return min(match.num_tokens, at_most)
    found = match.checkpoint(at_most=at_most)
    return found[0].position if found is not None else 0


def _stored_continuation(match: PrefixMatch[None], entries: Sequence[DiskEntry]) -> Tokens | None:
    """Return the tokens on disk after the match.

    These are of the chunk that the match ends in, or of the most recently used one that follows.
    """
    if not match.chunks:
        return None
    chunk, first = match.chunks[-1], match.num_tokens - match.chunks[-1].start
    if match.num_tokens < chunk.end:
        return Tokens("I", chunk.tokens)[first : first + _NUM_NEIGHBORS]
    following = [entry for entry in entries if entry.parent == chunk.key]
    if not following:
        return None
    return Tokens("I", max(following, key=lambda entry: entry.used).tokens)[:_NUM_NEIGHBORS]
