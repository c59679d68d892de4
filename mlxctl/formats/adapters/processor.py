"""From token ids to events: one processor per answer."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

from mlxctl.formats.adapters.prepared import PreparedInput
from mlxctl.formats.adapters.tokens.logprobs import LogprobLedger
from mlxctl.formats.adapters.tokens.token_table import TokenBytes
from mlxctl.formats.adapters.tokens.vocabulary import Vocabulary
from mlxctl.formats.parsers import AnswerMachine, ThinkingParser, ToolParser
from mlxctl.ir import Finished, FinishReason, GenerationRequest, StreamEvent, TokenScore, Usage
from mlxctl.ir.cache_usage import NO_CACHE_USAGE

# Where a call is required, an answer has at most so many. Chosen, not measured: an agent may go on in the
# next turn, and runs few calls at once.
_MAX_REQUIRED_CALLS = 16


class StreamProcessor:
    """Converts the ids of one answer to events.

    Adjacent deltas, once joined, are the same for every chunking. Used from one thread.

    `hidden_ids` are tokens without text. `num_completion_tokens` counts every id up to the one that completed
    a stop string; `num_thinking_tokens` counts those that came while the model was thinking, the closing one
    included. Without parallel tool calls the answer ends with the first complete call; where a call is
    required, it ends with one that repeats another. With `only_offered` calls of other tools are text. The
    service sets `cache_usage`, and the counts of draft tokens that were accepted and rejected.
    """

    def __init__(
        self,
        request: GenerationRequest,
        prepared: PreparedInput,
        vocabulary: TokenBytes,
        *,
        tools: ToolParser,
        thinking: ThinkingParser,
        hidden_ids: frozenset[int],
        only_offered: bool = False,
    ) -> None:
        self.cache_usage = NO_CACHE_USAGE
        self.num_accepted_draft_tokens = 0
        self.num_rejected_draft_tokens = 0
        self.is_finished = False
        self._num_prompt_tokens = len(prepared.token_ids)
        self._num_long_ttl_tokens = prepared.num_long_ttl_tokens
        self._num_dropped_messages = prepared.num_dropped_messages
        self._applied_edits = prepared.applied_edits
        self.num_completion_tokens = 0
        self._num_thinking_tokens = 0
        self._detokenizer = vocabulary.detokenizer(is_continuation=bool(request.prompts))
        self._textless_ids = prepared.stop_token_ids | hidden_ids | frozenset(request.stop_token_ids)
        self._keeps_scores_of_stops = request.ignore_eos
        self._ledger = None if prepared.sampling.num_top_logprobs is None else LogprobLedger(vocabulary)
        # The grammar of a forced answer allows any number of calls, and a weak model never ends it.
        is_required = request.tool_choice.mode == "required"
        max_calls = _MAX_REQUIRED_CALLS if is_required else None
        self._machine = AnswerMachine(
            tools=tools,
            thinking=thinking,
            tool_specs=request.tools if tools.openers else (),
            stop=request.stop,
            prompt_tail=prepared.prompt_tail,
            only_offered=only_offered,
            max_calls=max_calls if request.parallel_tool_calls else 1,
            ends_repeated=is_required,
            logprobs_between=None if self._ledger is None else self._ledger.take,
        )

    @property
    def prompt_usage(self) -> Usage:
        """Token counts of the prompt.

        The stored tokens are its last ones: those after the tokens that the cache had already.
        """
        num_stored_tokens = self.cache_usage.num_stored_tokens
        num_matched_tokens = self._num_prompt_tokens - num_stored_tokens
        return Usage(
            num_prompt_tokens=self._num_prompt_tokens,
            num_dropped_messages=self._num_dropped_messages,
            applied_edits=self._applied_edits,
            num_cached_tokens=self.cache_usage.num_cached_tokens,
            num_stored_tokens=num_stored_tokens,
            num_long_ttl_stored_tokens=min(
                max(0, self._num_long_ttl_tokens - num_matched_tokens), num_stored_tokens
            ),
        )

    @property
    def usage(self) -> Usage:
        """Token counts so far."""
        return replace(
            self.prompt_usage,
            num_completion_tokens=self.num_completion_tokens,
            num_thinking_tokens=self._num_thinking_tokens,
            num_accepted_draft_tokens=self.num_accepted_draft_tokens,
            num_rejected_draft_tokens=self.num_rejected_draft_tokens,
        )

    def feed(self, token_ids: Sequence[int], scores: Sequence[TokenScore] = ()) -> list[StreamEvent]:
        """Take generated ids, the final stop token included.

        `scores` has one entry per id if log-probabilities were requested, and is empty otherwise.
        """
        assert not scores or len(scores) == len(token_ids), "one score for each token"
        events: list[StreamEvent] = []
        for index, token_id in enumerate(token_ids):
            if self.is_finished:
                break
            self.num_completion_tokens += 1
            if self._machine.is_thinking:
                self._num_thinking_tokens += 1
            if token_id not in self._textless_ids:
                self._read(token_id, scores[index] if scores else None, events)
            elif self._keeps_scores_of_stops and self._ledger is not None and scores:
                self._ledger.add(scores[index])
        return events

    def finish(self, reason: Literal["stop", "length"]) -> list[StreamEvent]:
        """Return the text held back and Finished; nothing if already over."""
        if self.is_finished:
            return []
        return [
            *self._feed_machine(self._detokenizer.finish()),
            *self._machine.finish(is_cut_off=reason == "length"),
            self._finished(reason),
        ]

    def _read(self, token_id: int, score: TokenScore | None, events: list[StreamEvent]) -> None:
        text = self._detokenizer.feed(token_id)
        if self._ledger is not None and score is not None:
            self._ledger.add(score)
        if text:
            events += self._feed_machine(text)
        if self._machine.is_over:
            events.append(self._finished("stop"))

    def _feed_machine(self, text: str) -> list[StreamEvent]:
        if self._ledger is not None:
            self._ledger.advance(len(text))
        return self._machine.feed(text)

    def _finished(self, reason: FinishReason) -> Finished:
        self.is_finished = True
        if self._machine.stop_sequence is not None:
            reason = "stop_sequence"
        elif reason == "stop" and self._machine.num_complete_calls:
            reason = "tool_calls"
        return Finished(reason=reason, usage=self.usage, stop_sequence=self._machine.stop_sequence)


def find_hidden_ids(vocabulary: Vocabulary, tools: ToolParser, thinking: ThinkingParser) -> frozenset[int]:
    """Return the special tokens that are part of no marker."""
    markers = tools.markers | thinking.markers
    return frozenset(
        token.token_id
        for token in vocabulary.added.values()
        if token.is_special and not any(token.text in marker for marker in markers)
    )
