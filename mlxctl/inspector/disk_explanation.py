"""How much of a prompt lies on disk, and where it parts from what does. Pure."""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from mlxctl.ir.tokens import Salt, Tokens
from mlxctl.prefix_cache.disk.inspection import DiskEntry
from mlxctl.prefix_cache.entries import Checkpoint, Chunk, PrefixMatch
from mlxctl.prefix_cache.index import PrefixIndex

_NUM_NEIGHBORS = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class DiskExplanation:
    """Of `num_prompt_tokens`, a server could take over `num_cached_tokens` from disk; `num_known_tokens` lie
    there.

    That is more where layers need a state to go on from and none was kept there. `before` is the text before
    the first token that is not known, `here` that from it on, `there` what lies on disk instead: None where
    nothing that begins so goes on. `place` names the message or tool that it is in; `message` and `tool` are
    their indexes, if it is one.
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
    """Look for a prompt of the model, with its images, among everything that lies on disk and lives `now`, of
    any caller.
    """
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
    there = _behind(best)
    return DiskExplanation(
        model=model,
        num_prompt_tokens=len(tokens),
        num_cached_tokens=_usable(best, own, at_most=len(tokens) - 1),
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


def _usable(match: PrefixMatch[None], entries: Sequence[DiskEntry], *, at_most: int) -> int:
    if not any(entry.positions for entry in entries):
        return min(match.num_tokens, at_most)
    found = match.checkpoint(at_most=at_most)
    return found[0].position if found is not None else 0


def _behind(match: PrefixMatch[None]) -> Tokens | None:
    """What goes on where the match ends, in the chunk that it ends in or in the one used last of those that
    follow.
    """
    place: Chunk[None] | None = match.chunks[-1] if match.chunks else None
    if place is None:
        return None
    start = match.num_tokens
    if start == place.end:
        place = next(reversed((place.children or {}).values()), None)
    if place is None:
        return None
    tokens = Tokens("I", place.tokens)
    return tokens[start - place.start : start - place.start + _NUM_NEIGHBORS]
