"""Decode steps with and without drafts, their drafters and their times.

MLX thread only.
"""

import logging
import time
from collections import abc
from collections.abc import Iterable
from typing import TYPE_CHECKING, Literal

import mlx.core as mx

from mlxctl.engine.backend import Backend
from mlxctl.engine.decoding.decode_batch import DecodeBatch, StepInFlight
from mlxctl.engine.loaded_weights import LoadedWeights
from mlxctl.engine.scheduling.batch import RowResult
from mlxctl.engine.scheduling.sequence import Sequence
from mlxctl.engine.speculation.cache_rollback import rollback_problem, trims_cheaply
from mlxctl.engine.speculation.draft_model import DraftModel
from mlxctl.engine.speculation.forced_tokens import forced_drafts
from mlxctl.engine.speculation.hidden_states import HiddenStates
from mlxctl.engine.speculation.mtp_drafter import MtpDrafter
from mlxctl.engine.speculation.policy.draft_counts import DraftCounts
from mlxctl.engine.speculation.policy.drafter import Drafter
from mlxctl.engine.speculation.policy.gate_store import GateStore
from mlxctl.engine.speculation.policy.prompt_lookup import PromptLookup
from mlxctl.engine.speculation.policy.speculator import DraftPlan, Speculator
from mlxctl.engine.speculation.verification import verify_drafts
from mlxctl.state.settings import EngineSettings

if TYPE_CHECKING:
    from mlxctl.engine.lora.lora_adapters import LoraAdapters

_log = logging.getLogger(__name__)


class VerifiedStep:
    """The results of a step that has verified drafts."""

    def __init__(self, results: list[RowResult]) -> None:
        self._results = results

    def read(self) -> list[RowResult]:
        """Wait for the step and return the results by row."""
        return self._results


class DraftSteps:
    """Decides for each decode step whether it verifies drafts.

    It measures steps of both kinds. A step begins with `begin` and ends with `end`. Without a `speculator` no
    step has other drafts than those that grammars force; without `takes_forced` it has not even these. Rows
    of a batch have different numbers of them only with `can_pad`. `states` collects the model's hidden
    states, where a drafter needs them. A step that `only_reads` has computed nothing, so its time is that of
    no decode step.
    """

    def __init__(
        self,
        speculator: Speculator | None,
        states: HiddenStates | None = None,
        *,
        can_pad: bool = False,
        takes_forced: bool = True,
    ) -> None:
        self._speculator = speculator
        self._takes_forced = takes_forced
        self._can_pad = can_pad
        self.only_reads = False
        self._states = states
        self._seconds = 0.0
        self._resumed = 0.0
        self._is_single = False
        self._plan: DraftPlan | None = None
        self._results: list[RowResult] = []
        self._plain_rows: list[Sequence] = []
        self._plain_rows_before: list[Sequence] = []

    @classmethod
    def of_model(
        cls,
        weights: LoadedWeights,
        lora: "LoraAdapters",
        gates: GateStore,
        counts: DraftCounts,
        *,
        name: str,
        digest: str,
        settings: EngineSettings,
        backend: Backend,
    ) -> "DraftSteps":
        """Return the steps of the model served as `name`.

        `digest` identifies its weights in the stored gates.
        """
        if weights.is_sharded:
            # Verification is not repeated by other ranks.
            return cls(None, takes_forced=False)
        can_pad = trims_cheaply(weights)
        if settings.speculation == "off":
            return cls(None, can_pad=can_pad)
        if problem := rollback_problem(weights):
            _log.warning("model %s decodes without drafts: %s", name, problem)
            return cls(None)
        states = HiddenStates(weights.state_recorder) if weights.mtp_head is not None else None
        drafters = _create_drafters(weights, lora, states, speculation=settings.speculation, backend=backend)
        if not drafters:
            return cls(None, states, can_pad=can_pad)
        by_name = {drafter.name: gates.gate(digest, drafter.name) for drafter in drafters}
        speculator = Speculator(drafters, by_name, counts, max_draft_tokens=settings.max_draft_tokens)
        return cls(speculator, states, can_pad=can_pad)

    def begin(self, num_groups: int) -> None:
        """Start the clock of a step.

        Drafts are made only if all rows are in one group.
        """
        self._seconds, self._resumed = 0.0, time.monotonic()
        self._is_single = num_groups == 1
        self.only_reads = False
        self._plan, self._results, self._plain_rows = None, [], []

    def step(self, batch: DecodeBatch) -> VerifiedStep | StepInFlight | None:
        """Verify drafts of a batch, or read its tokens in flight.

        The drafts then come with the next step. Forced tokens come before other drafts. None if the batch
        decodes without drafts.
        """
        forced = forced_drafts(batch, can_pad=self._can_pad) if self._takes_forced else None
        if forced is not None:
            if any(row.has_token_in_flight for row in batch.rows):
                return self._read(batch)
            return VerifiedStep(verify_drafts(batch, forced, self._states, are_forced=True))
        if self._speculator is None or not self._is_single:
            return None
        started = time.monotonic()
        plan = self._speculator.plan(batch.rows)
        if plan is None:
            self._plain_rows = batch.rows
            # What a draft model reads is not part of a step without drafts.
            self._resumed += time.monotonic() - started
            return None
        if any(row.has_token_in_flight for row in batch.rows):
            return self._read(batch)
        self._plan = plan
        self._results = verify_drafts(batch, [draft.token_ids for draft in plan.drafts], self._states)
        return VerifiedStep(self._results)

    def _read(self, batch: DecodeBatch) -> StepInFlight:
        self.only_reads = self._is_single
        return batch.settle()

    def take_states(self) -> mx.array | None:
        """Return the last pass's final hidden states, if a drafter needs them."""
        return self._states.take_pass() if self._states is not None else None

    def add_prefill(
        self,
        rows: abc.Sequence[Sequence],
        starts: abc.Sequence[int],
        ends: abc.Sequence[int],
        states: mx.array | None,
    ) -> None:
        """Collect the states (rows, tokens, width) of a prefill pass."""
        if self._states is not None and states is not None:
            self._states.add_prefill(rows, starts, ends, states)

    def add_decoded(self, rows: abc.Sequence[Sequence]) -> None:
        """Collect the states of a decode step of one token a row."""
        if self._states is not None:
            self._states.add(self._states.take_pass(), rows, [1] * len(rows))

    def pause(self) -> None:
        """Stop the clock until `end`, while results are sent."""
        self._seconds += time.monotonic() - self._resumed

    def resume(self) -> None:
        """Start the clock again."""
        self._resumed = time.monotonic()

    def end(self) -> None:
        """Add the step to the measurements."""
        if self._speculator is None:
            return
        self.pause()
        if self._plan is not None:
            self._speculator.observe(self._plan, self._results, self._seconds)
        # The first step without drafts only starts a pass; the next one also waits for it.
        elif self._plain_rows and self._plain_rows == self._plain_rows_before:
            self._speculator.observe_plain(self._plain_rows, self._seconds)
        self._plain_rows_before = self._plain_rows
        self._plan, self._results, self._plain_rows = None, [], []

    def drop(self, sequence_ids: Iterable[int]) -> None:
        """Free the draft states of rows that ended."""
        if self._speculator is not None:
            for sequence_id in sequence_ids:
                self._speculator.drop(sequence_id)


def _create_drafters(
    weights: LoadedWeights,
    lora: "LoraAdapters",
    states: HiddenStates | None,
    *,
    speculation: Literal["off", "auto", "lookup", "draft", "mtp"],
    backend: Backend,
) -> list[Drafter]:
    """Return the drafters of a model.

    Its MTP head is one of them if there are `states`.
    """
    drafters: list[Drafter] = []
    if speculation in ("auto", "lookup"):
        drafters.append(PromptLookup())
    if states is not None:
        text_model = getattr(weights.model, "text_model", weights.model).language_model
        drafters.append(
            MtpDrafter(
                weights.mtp_head,
                text_model,
                states,
                lora.of_rows,
                vocabulary_size=weights.vocabulary_size,
                backend=backend,
            )
        )
    if speculation in ("auto", "draft") and weights.draft_model is not None:
        drafters.append(
            DraftModel(weights.draft_model, vocabulary_size=weights.vocabulary_size, backend=backend)
        )
    return drafters
