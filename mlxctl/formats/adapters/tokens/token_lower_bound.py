"""A lower bound for a text's number of tokens.

It rejects texts that cannot fit a context without tokenizing them.
"""

import json
from collections.abc import Iterable, Mapping
from typing import Any

# A composed character takes a fourth of the bytes of its parts, or more.
_MAX_COMPOSITION = 4
_BYTE_STEPS = frozenset({"ByteLevel", "Digits", "Metaspace", "Punctuation", "Split"})


class TokenLowerBound:
    """Divides a text's bytes by those of the longest token.

    The bound is 0 for tokenizers whose tokens do not keep all bytes of a text.
    """

    def __init__(self, tokenizer: Any, tokens: Iterable[bytes]) -> None:
        """Take the tokenizer, and all of its tokens as bytes."""
        from tokenizers.models import BPE

        added = tokenizer.get_added_tokens_decoder().values()
        self._longest = max(map(len, tokens), default=0)
        self._keeps_spaces = not any(token.lstrip or token.rstrip for token in added)
        normalizers, splitters = _steps(tokenizer.normalizer), _steps(tokenizer.pre_tokenizer)
        kinds = [step["type"] for step in splitters]
        has_all_bytes = isinstance(tokenizer.model, BPE) and (
            "ByteLevel" in kinds or tokenizer.model.byte_fallback
        )
        self._has_bound = (
            has_all_bytes
            and all(map(_keeps, normalizers))
            and _BYTE_STEPS.issuperset(kinds)
            and not any(step.get("behavior") == "Removed" for step in splitters)
        )
        self._composes = any(step["type"] == "NFC" for step in normalizers)

    def of(self, text: str, *, may_lose_spaces: bool = False) -> int:
        """Return a text's least number of tokens; 0 if none is known.

        With `may_lose_spaces`, white space does not count.
        """
        if not self._has_bound or not self._longest:
            return 0
        counted = text if self._keeps_spaces and not may_lose_spaces else "".join(text.split())
        if counted.isascii():
            return -(-len(counted) // self._longest)
        num_bytes = len(counted.encode("utf-8", "surrogatepass"))
        return num_bytes // (self._longest * (_MAX_COMPOSITION if self._composes else 1))


def _steps(component: Any) -> list[Mapping[str, Any]]:
    """Return the steps of a normalizer or pre-tokenizer."""
    if component is None:
        return []
    level = [json.loads(component.__getstate__())]
    found: list[Mapping[str, Any]] = []
    for step in level:
        parts = step.get("normalizers") or step.get("pretokenizers")
        (level if parts else found).extend(parts or [step])
    return found


def _keeps(step: Mapping[str, Any]) -> bool:
    """Whether a normalizer drops nothing except by composing characters."""
    if step["type"] == "Replace":
        return step.get("pattern") == {"String": " "} and bool(step.get("content"))
    return step["type"] in ("NFC", "Prepend")
