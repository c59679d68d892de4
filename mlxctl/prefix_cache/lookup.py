"""The way of a prompt through a tree of chunks: by key while whole chunks fit, then to the token. Pure."""

from collections.abc import Mapping, Sequence

from mlxctl.ir.tokens import Salt, Tokens, common_length, first_salt_difference
from mlxctl.prefix_cache.chunks import CHUNK_TOKENS, ID_BYTES, Key, chunk_key, to_24_bit
from mlxctl.prefix_cache.entries import Chunk, P, PrefixMatch


def longest_match(
    children: "Mapping[Key, Chunk[P]]", root: Key, tokens: Tokens, salts: Sequence[Salt], *, now: float
) -> "PrefixMatch[P]":
    """Return the longest way on which the prompt and what lives `now` agree, from the chunks that begin
    prompts.
    """
    key = root
    path: list[Chunk[P]] = []
    view = memoryview(tokens).cast("B")
    for start in range(0, len(tokens), CHUNK_TOKENS):
        piece = view[4 * start : 4 * (start + CHUNK_TOKENS)]
        key = chunk_key(key, piece.tobytes(), salts, start=start)
        chunk = children.get(key)
        if chunk is None or chunk.expires_at <= now:
            living = [child for child in children.values() if child.expires_at > now]
            return PrefixMatch(tuple(path), _partial_matches(living, piece.tobytes(), start, salts))
        path.append(chunk)
        children = chunk.children or {}
    return PrefixMatch(tuple(path))


def covering(children: "Mapping[Key, Chunk[P]]", ids: bytes, salts: Sequence[Salt]) -> "Chunk[P] | None":
    """Return the child that begins with all that a chunk of these ids says, if there is one."""
    return next((child for child in children.values() if child.starts_with(ids, salts)), None)


def agree_up_to(one: "Chunk[P]", other: "Chunk[P]", position: int) -> bool:
    """Whether two siblings say the same up to `position`, which must lie in both."""
    ids = one.ids[: ID_BYTES * (position - one.start)]
    return (
        one.end >= position <= other.end
        and one.starts_with(ids, other.salts)
        and other.starts_with(ids, one.salts)
    )


def _partial_matches(
    children: "Sequence[Chunk[P]]", tokens: bytes, start: int, salts: Sequence[Salt]
) -> "tuple[tuple[Chunk[P], int], ...]":
    """The grid ends here; among the children one may agree for some more tokens, but never into an image that
    is another one.
    """
    if not children:
        return ()
    ids = to_24_bit(tokens)
    agreeing = []
    for child in children:
        end = start + common_length(child.ids, ids) // ID_BYTES
        end = first_salt_difference(salts, child.salts, start, end)
        if end > start:
            agreeing.append((child, end))
    return tuple(sorted(agreeing, key=lambda pair: -pair[1]))
