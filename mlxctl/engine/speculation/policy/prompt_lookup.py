"""Prompt lookup (Saxena 2023): drafts without a model.

A draft is what followed the row's last tokens earlier in its prompt or answer.
"""

from array import array
from collections import abc
from typing import Any

import numpy as np

from mlxctl.engine.scheduling.sequence import Sequence
from mlxctl.engine.speculation.policy.drafter import NO_DRAFT, Draft

# Fewer equal tokens are no evidence.
_MIN_MATCH = 3
_MAX_MATCH = 32
# Earlier occurrences that are compared, latest first.
_MAX_CANDIDATES = 8
# Bounds of the classes of evidence, in equal tokens.
_EVIDENCE_BOUNDS = (5, 9, 17)
_FACTORS = (0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9)
_KEY_MASK = (1 << 64) - 1
# A filter has this many slots for each run of a prompt, and takes a slot's number from these bits of a key.
_SLOTS_PER_RUN = 16
_MAX_SLOTS = 1 << 22
_SLOT_SHIFT = 40


class PromptLookup:
    """Drafter that declines where the last tokens occur nowhere else."""

    name = "lookup"
    needs_tokens = False

    def __init__(self) -> None:
        self._histories: dict[int, TokenHistory] = {}

    def draft(self, rows: abc.Sequence[Sequence], max_tokens: abc.Sequence[int]) -> list[Draft]:
        """Return the continuation of the longest match of each row."""
        return [
            self._draft(row, num) if num > 0 else NO_DRAFT for row, num in zip(rows, max_tokens, strict=True)
        ]

    def drop(self, sequence_id: int) -> None:
        """Free the index of a row that ended."""
        self._histories.pop(sequence_id, None)

    def _draft(self, row: Sequence, max_tokens: int) -> Draft:
        history = self._histories.get(row.sequence_id)
        if history is None:
            # The prompt of a preempted row has its output as well.
            history = self._histories[row.sequence_id] = TokenHistory(
                row.prompt_token_ids[: row.num_client_tokens]
            )
        history.follow(row.output_token_ids)
        end, length = history.longest_match()
        if length < _MIN_MATCH:
            return NO_DRAFT
        evidence = sum(length >= bound for bound in _EVIDENCE_BOUNDS)
        return Draft(tuple(history.continuation(end, max_tokens)), evidence)


class TokenHistory:
    """Tokens of a prompt and its answer, with an index.

    The index has every run of three. The prompt's index is built at once in O(n log n) with numpy, the
    answer's token by token. A filter rules out runs that the prompt does not have, so that a step without a
    match costs about a microsecond.
    """

    def __init__(self, prompt: "array[int]") -> None:
        self.tokens = array("I", prompt)
        self._num_prompt_tokens = len(prompt)
        keys = _keys(np.frombuffer(self.tokens.tobytes(), dtype=np.uint32))
        self._order = np.argsort(keys, kind="stable")
        self._keys = keys[self._order]
        self._filter = bytearray(min(1 << (_SLOTS_PER_RUN * len(keys)).bit_length(), _MAX_SLOTS))
        slots = (keys >> np.uint64(_SLOT_SHIFT)) & np.uint64(len(self._filter) - 1)
        np.frombuffer(self._filter, dtype=np.uint8)[slots.astype(np.intp)] = 1
        self._ends: dict[int, list[int]] = {}

    def follow(self, output: abc.Sequence[int]) -> None:
        """Add output tokens that are new since the last call."""
        for token_id in output[len(self.tokens) - self._num_prompt_tokens :]:
            # A run is added when the token after it is known, so that the last run does not find itself.
            if len(self.tokens) > self._num_prompt_tokens:
                self._add_last_run()
            self.tokens.append(token_id)

    def longest_match(self) -> tuple[int, int]:
        """Return the end and length of the longest match.

        That is an earlier occurrence of the last tokens. Of several the latest one is returned; (0, 0)
        without a match.
        """
        if len(self.tokens) <= _MIN_MATCH:
            return 0, 0
        best_end = best_length = 0
        for end in self._candidates(self._last_key()):
            length = self._match_length(end)
            if length > best_length:
                best_end, best_length = end, length
        return best_end, best_length

    def continuation(self, start: int, num_tokens: int) -> list[int]:
        """Return the tokens from `start` on; at the end they repeat."""
        tokens = list(self.tokens[start : start + num_tokens])
        period = len(tokens)
        while len(tokens) < num_tokens:
            tokens.append(tokens[-period])
        return tokens

    def _add_last_run(self) -> None:
        if len(self.tokens) >= _MIN_MATCH:
            ends = self._ends.setdefault(self._last_key(), [])
            ends.append(len(self.tokens))
            del ends[:-_MAX_CANDIDATES]

    def _last_key(self) -> int:
        """Return the hash of the last three tokens, as `_keys` computes it."""
        first, second, third = self.tokens[-_MIN_MATCH:]
        key = (first + 1) * _FACTORS[0] ^ (second + 1) * _FACTORS[1] ^ (third + 1) * _FACTORS[2]
        return key & _KEY_MASK

    def _candidates(self, key: int) -> list[int]:
        """Return where the run with this key occurred before, latest first.

        These are the ends of the runs.
        """
        ends = self._ends.get(key, [])[::-1]
        if not self._filter[(key >> _SLOT_SHIFT) & (len(self._filter) - 1)]:
            return ends
        low, high = (self._keys.searchsorted(np.uint64(key), side) for side in ("left", "right"))
        found = self._order[max(low, high - _MAX_CANDIDATES) : high][::-1]
        return ends + [end for end in (found + _MIN_MATCH).tolist() if end < len(self.tokens)]

    def _match_length(self, end: int) -> int:
        tokens, last = self.tokens, len(self.tokens)
        length, most = 0, min(_MAX_MATCH, end)
        while length < most and tokens[end - 1 - length] == tokens[last - 1 - length]:
            length += 1
        return length


def _keys(tokens: Any) -> Any:
    """Return a hash of every run of three tokens.

    From (n,) to uint64 (max(n - 2, 0),).
    """
    wide = tokens.astype(np.uint64)
    num = max(len(wide) - _MIN_MATCH + 1, 0)
    keys: Any = np.zeros(num, dtype=np.uint64)
    for place, factor in enumerate(_FACTORS):
        keys ^= (wide[place : place + num] + np.uint64(1)) * np.uint64(factor)
    return keys
