"""Two branches beside each other. Pure."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from mlxctl.errors import InvalidRequest
from mlxctl.inspector.branches import Branch, num_common, path_text

_NEIGHBOURS = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """What two branches have in common: whole chunks in tokens, text in characters; and the text around the place they part."""

    num_shared_tokens: int
    num_shared_characters: int
    before: str
    one: str
    other: str

    def as_dict(self) -> dict[str, Any]:
        """Return it for JSON."""
        return asdict(self)


def compare(one: Sequence[Branch], other: Sequence[Branch]) -> Comparison:
    """Compare two paths. Raises InvalidRequest when their text is not known."""
    texts = [text for path in (one, other) if (text := path_text(path)) is not None]
    if len(texts) < 2:
        raise InvalidRequest("what a branch says is not known: its model is neither served nor on this machine", param="key")
    shared = [first for first, second in zip(_keys(one), _keys(other), strict=False) if first == second]
    num = num_common(*texts)
    return Comparison(
        num_shared_tokens=sum(num_tokens for _, num_tokens in shared),
        num_shared_characters=num,
        before=texts[0][max(0, num - _NEIGHBOURS) : num],
        one=texts[0][num : num + _NEIGHBOURS],
        other=texts[1][num : num + _NEIGHBOURS],
    )


def _keys(path: Sequence[Branch]) -> list[tuple[str, int]]:
    return [(chunk.key, chunk.num_tokens) for branch in path for chunk in branch.chunks]
