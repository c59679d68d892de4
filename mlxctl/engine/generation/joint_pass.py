"""Prefill of several prompts in one batch, evaluated in turns.

MLX thread only.
"""

from collections import abc
from typing import TYPE_CHECKING, Any

from mlxctl.engine.decoding import caches as kv
from mlxctl.engine.generation.prefill_pass import PrefillPass
from mlxctl.engine.generation.prefill_state import PrefillState
from mlxctl.engine.generation.prefix_coordinator import PrefixCoordinator
from mlxctl.engine.scheduling.batch import TurnLimit
from mlxctl.engine.scheduling.prefill_batching import prefill_passes
from mlxctl.engine.speculation.draft_steps import DraftSteps

if TYPE_CHECKING:
    from mlxctl.engine.lora.lora_adapters import LoraAdapters


class JointPass:
    """The rest of several prompts, in one pass for each checkpoint.

    `caches` hold all rows. It is the unfinished pass of the states; a row whose state has another one left,
    and is computed to the end and then dropped.
    """

    def __init__(
        self,
        model: Any,
        states: abc.Sequence[PrefillState],
        *,
        lora: "LoraAdapters",
        drafts: DraftSteps,
        prefixes: PrefixCoordinator,
    ) -> None:
        """Join the caches of the prompts, whose states lose them."""
        self._model, self._lora, self._drafts, self._prefixes = model, lora, drafts, prefixes
        self._states = list(states)
        self.sequences = [state.sequence for state in states]
        self._reached = [sequence.prefill.num_computed_tokens for sequence in self.sequences]
        self._remaining = prefill_passes(self.sequences)
        self._begun: PrefillPass | None = None
        self._paddings: list[int] = []
        self.caches = kv.join([state.take_caches() for state in states], [1] * len(states))
        for state in states:
            state.unfinished_pass = self

    def run(self, turn: TurnLimit | None) -> bool:
        """Evaluate layers for a turn; return whether they were the last.

        A turn ends with a pass at the latest. None evaluates all.
        """
        while self._remaining:
            if self._begun is None:
                self._begun = self._begin()
            if not self._begun.run(turn):
                return False
            self._finish(self._begun)
            self._begun = None
            if turn is not None:
                break
        return not self._remaining

    def _begin(self) -> PrefillPass:
        rows = [
            state.tokens(start, end)
            for state, start, end in zip(self._states, self._reached, self._remaining[0], strict=True)
        ]
        with self._lora.of_rows(self.sequences):
            self._paddings = kv.begin_forward(self._model, self.caches, rows)
        return PrefillPass(self.caches, states=self._drafts.take_states())

    def _finish(self, begun: PrefillPass) -> None:
        """Store the prefixes of a pass whose layers are evaluated."""
        kv.finish_forward(self.caches, self._paddings)
        ends = self._remaining.pop(0)
        self._drafts.add_prefill(self.sequences, self._reached, list(ends), begun.states)
        for row, (state, end) in enumerate(zip(self._states, ends, strict=True)):
            if state.unfinished_pass is self:
                at_checkpoint = end in state.sequence.prefill.checkpoint_positions
                self._prefixes.store(state, end, self.caches, row=row, at_checkpoint=at_checkpoint)
        self._reached = list(ends)
