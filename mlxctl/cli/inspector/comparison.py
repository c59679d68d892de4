"""Comparison of two branches. Pure."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from mlxctl.cli.inspector.branches import Branch, num_common, path_text
from mlxctl.ir.errors import InvalidRequest

_NUM_NEIGHBORS = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class BranchComparison:
    """Shared length of two branches, and text around the first difference."""

    num_shared_tokens: int
    num_shared_characters: int
    before: str
    one: str
    other: str

    def as_dict(self) -> dict[str, Any]:
        """Return it for JSON."""
        return asdict(self)


def compare(one: Sequence[Branch], other: Sequence[Branch]) -> BranchComparison:
    """Compare two paths. Raises InvalidRequest when their text is unknown."""
    texts = [text for path in (one, other) if (text := path_text(path)) is not None]
    if len(texts) < 2:
        raise InvalidRequest(
            "the text of a branch is unknown: its model is neither served nor on this machine", param="key"
        )
    num = num_common(*texts)
    return BranchComparison(
        num_shared_tokens=sum(branch.num_tokens for branch in one[: num_common(one, other)]),
        num_shared_characters=num,
        before=texts[0][max(0, num - _NUM_NEIGHBORS) : num],
        one=texts[0][num : num + _NUM_NEIGHBORS],
        other=texts[1][num : num + _NUM_NEIGHBORS],
    )
