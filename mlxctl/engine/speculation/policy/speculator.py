"""Speculator: what one model's next decode step drafts. MLX thread only."""

from collections import abc
from dataclasses import dataclass

from mlxctl.engine.scheduling.batch import RowResult
from mlxctl.engine.scheduling.sequence import Sequence
from mlxctl.engine.speculation.policy.draft_counts import DraftCounts
from mlxctl.engine.speculation.policy.drafter import MAX_DRAFT_TOKENS, NO_DRAFT, Draft, Drafter
from mlxctl.engine.speculation.policy.gate import Acceptance, DraftOdds, SpeculationGate

# Weight, in tokens, of the acceptance of all rows against a row's own acceptance.
_COMMON_TOKENS = 4.0
_ROW_MEMORY, _COMMON_MEMORY = 0.9, 0.99


@dataclass(frozen=True, slots=True)
class DraftPlan:
    """The drafts of a decode step, cut to what pays.

    `context` is the longest row's length.
    """

    drafter: Drafter
    drafts: list[Draft]
    block: int
    context: int


class Speculator:
    """Chooses drafts for decode batches and measures what they bring.

    `gates` are by drafter name.
    """

    def __init__(
        self,
        drafters: abc.Sequence[Drafter],
        gates: dict[str, SpeculationGate],
        counts: DraftCounts,
        *,
        max_draft_tokens: int = MAX_DRAFT_TOKENS,
    ) -> None:
        self._drafters = drafters
        self._max_draft_tokens = max_draft_tokens
        self._gates = gates
        self._counts = counts
        self._by_row: dict[int, Acceptance] = {}
        # Drafts for tokens in flight, by sequence: the drafter, and the number of tokens before the draft.
        self._awaited: dict[int, tuple[str, int, Draft]] = {}
        for drafter in drafters:
            counts.open(drafter.name)

    def plan(self, rows: abc.Sequence[Sequence]) -> DraftPlan | None:
        """Return the drafts of the next step, None if it decodes without.

        A row whose last token is in flight is drafted for without it: the draft's first token stands for it.
        """
        if self._awaited:
            self._test_awaited(rows)
        limits = [_limit(row, self._max_draft_tokens) for row in rows]
        if not any(limits):
            return None
        for drafter in self._drafters:
            gate = self._gates[drafter.name]
            if not gate.is_closed and (plan := self._plan(drafter, gate, rows, limits)):
                self._awaited = {
                    row.sequence_id: (drafter.name, len(row.output_token_ids), draft)
                    for row, draft in zip(rows, plan.drafts, strict=False)
                    if row.has_token_in_flight and draft.token_ids
                }
                return plan
        return None

    def observe_plain(self, rows: abc.Sequence[Sequence], seconds: float) -> None:
        """Add a decode step without drafts, which came after another one."""
        context = max(row.length for row in rows)
        for gate in self._gates.values():
            gate.observe_plain(len(rows), context, seconds)

    def observe(self, plan: DraftPlan, results: abc.Sequence[RowResult], seconds: float) -> None:
        """Add a step that verified the drafts of a plan."""
        gate = self._gates[plan.drafter.name]
        gate.observe_block(
            len(results),
            plan.context,
            num_draft_tokens=plan.block,
            num_emitted=sum(len(result.token_ids) for result in results),
            seconds=seconds,
        )
        for result, draft in zip(results, plan.drafts, strict=True):
            if draft.token_ids:
                num = result.num_accepted_tokens
                tested = min(num + 1, len(draft.token_ids))
                self._add_outcome(gate, result.sequence.sequence_id, draft, num, tested)
                self._counts.add(plan.drafter.name, num_accepted=num, num_rejected=len(draft.token_ids) - num)

    def drop(self, sequence_id: int) -> None:
        """Free the state of a row that ended."""
        self._by_row.pop(sequence_id, None)
        self._awaited.pop(sequence_id, None)
        for drafter in self._drafters:
            drafter.drop(sequence_id)

    def _test_awaited(self, rows: abc.Sequence[Sequence]) -> None:
        """Compare drafts for tokens in flight with these tokens.

        Such a draft is made again with the token, so a wrong one is never verified; only its step was wasted.
        """
        awaited, self._awaited = self._awaited, {}
        for row in rows:
            name, num_before, draft = awaited.get(row.sequence_id, ("", 0, NO_DRAFT))
            if draft.token_ids and len(row.output_token_ids) > num_before:
                is_right = row.output_token_ids[num_before] == draft.token_ids[0]
                self._add_outcome(self._gates[name], row.sequence_id, draft, int(is_right), 1)

    def _add_outcome(
        self, gate: SpeculationGate, sequence_id: int, draft: Draft, accepted: int, tested: int
    ) -> None:
        gate.rate(draft.evidence).add(accepted, tested, memory=_COMMON_MEMORY)
        own = self._by_row.setdefault(sequence_id, Acceptance(0.0, 0.0))
        own.add(accepted, tested, memory=_ROW_MEMORY)

    def _plan(
        self, drafter: Drafter, gate: SpeculationGate, rows: abc.Sequence[Sequence], limits: abc.Sequence[int]
    ) -> DraftPlan | None:
        # Most steps have no evidence, so lookup comes first: it costs less than the gate.
        drafts = [] if drafter.needs_tokens else drafter.draft(rows, limits)
        if not drafter.needs_tokens and not any(draft.token_ids for draft in drafts):
            return None
        offered = (
            [(limit, 0) for limit in limits]
            if drafter.needs_tokens
            else [(len(draft.token_ids), draft.evidence) for draft in drafts]
        )
        odds = [
            DraftOdds(num, self._rate(row, gate.rate(evidence)))
            for row, (num, evidence) in zip(rows, offered, strict=True)
            if num
        ]
        context = max(row.length for row in rows)
        block = gate.block_length(len(rows), context, odds)
        if not block:
            return None
        if not drafter.needs_tokens:
            cut = [Draft(draft.token_ids[:block], draft.evidence) for draft in drafts]
            return DraftPlan(drafter, cut, block, context)
        if any(row.has_token_in_flight for row in rows):
            return DraftPlan(drafter, [], block, context)
        drafts = drafter.draft(rows, [min(limit, block) for limit in limits])
        has_drafts = any(draft.token_ids for draft in drafts)
        return DraftPlan(drafter, drafts, block, context) if has_drafts else None

    def _rate(self, row: Sequence, common: Acceptance) -> float:
        own = self._by_row.get(row.sequence_id)
        if own is None:
            return common.rate
        return (own.accepted + common.rate * _COMMON_TOKENS) / (own.tested + _COMMON_TOKENS)


def _limit(row: Sequence, maximum: int) -> int:
    """Return the longest draft that a row can use."""
    if not row.sampling.speculation:
        return 0
    # One more token is sampled after the draft.
    num = min(maximum, row.max_tokens - row.num_sampled_tokens - 1)
    if row.constraint is not None:
        num = min(num, row.constraint.num_free_positions(row.num_sampled_tokens) - 1)
    return max(num, 0)
