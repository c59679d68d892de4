"""Final hidden states of the last tokens of each row.

MLX thread only. The model's last norm records what it returns; nothing is computed for it but the last layer
in the last prefill passes of a prompt.
"""

from collections import abc, deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import mlx.core as mx

from mlxctl.engine.scheduling.sequence import Sequence

if TYPE_CHECKING:
    from mlxctl.engine.speculation.mtp_head import StateRecorder

MAX_STATES = 256
"""States that are held for a row."""


@dataclass(slots=True)
class _RowStates:
    """States of consecutive tokens, the first one at index `start`.

    Each part has some tokens of a row of a pass: the pass's states, the row's index, the number of tokens.
    """

    start: int
    parts: deque[tuple[mx.array, int, int]] = field(default_factory=deque)
    num: int = 0

    def add(self, states: mx.array, row: int, num: int) -> None:
        self.parts.append((states, row, num))
        self.num += num
        while self.num - self.parts[0][2] >= MAX_STATES:
            _, _, dropped = self.parts.popleft()
            self.start += dropped
            self.num -= dropped


class HiddenStates:
    """The states of all rows that a drafter has not used yet."""

    def __init__(self, recorder: "StateRecorder") -> None:
        self._recorder = recorder
        self._rows: dict[int, _RowStates] = {}

    def take_pass(self) -> mx.array | None:
        """Return the states (rows, tokens, width) of the last pass, once."""
        return self._recorder.take()

    def add_prefill(
        self,
        rows: abc.Sequence[Sequence],
        starts: abc.Sequence[int],
        ends: abc.Sequence[int],
        states: mx.array,
    ) -> None:
        """Add the prompt tokens from `starts` to `ends`, which have these states."""
        num_computed = max(end - start for start, end in zip(starts, ends, strict=True))
        # Prompt log-probabilities are computed in several passes, of which these are the last one's.
        if states.shape[1] != num_computed:
            return
        for index, (row, start, end) in enumerate(zip(rows, starts, ends, strict=True)):
            num = min(end - start, MAX_STATES)
            if num and end > row.num_prompt_tokens - MAX_STATES:
                # A lazy slice would hold the whole pass.
                tail = mx.contiguous(states[index : index + 1, end - start - num : end - start])
                mx.eval(tail)
                self._add(row, end - num, tail, 0, num)

    def add(self, states: mx.array | None, rows: abc.Sequence[Sequence], nums: abc.Sequence[int]) -> None:
        """Add the first `nums` tokens of each row of a pass.

        It is a decode step's; they are the last tokens in the rows' caches.
        """
        if states is not None:
            for index, (row, num) in enumerate(zip(rows, nums, strict=True)):
                self._add(row, row.length - num, states, index, num)

    def take(self, row: Sequence) -> tuple[int, mx.array] | None:
        """Return a row's states (1, n, width) and the first one's index.

        They are no longer held. None where those up to the row's last token in the cache are not known.
        """
        held = self._rows.pop(row.sequence_id, None)
        if held is None or held.start + held.num != row.length:
            return None
        parts = [states[index : index + 1, :num] for states, index, num in held.parts]
        return held.start, mx.concatenate(parts, axis=1) if len(parts) > 1 else parts[0]

    def drop(self, sequence_id: int) -> None:
        """Free the states of a row that ended."""
        self._rows.pop(sequence_id, None)

    def _add(self, row: Sequence, start: int, states: mx.array, index: int, num: int) -> None:
        held = self._rows.get(row.sequence_id)
        if held is None or held.start + held.num != start:
            held = self._rows[row.sequence_id] = _RowStates(start)
        held.add(states, index, num)
