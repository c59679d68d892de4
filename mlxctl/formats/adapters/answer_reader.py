"""The part of an adapter that parses answers.

It holds no tokenizer and no template, so it is small enough to pickle.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from mlxctl.formats.adapters.parser_choice import described_parsers
from mlxctl.formats.adapters.prepared import PreparedInput
from mlxctl.formats.adapters.processor import StreamProcessor
from mlxctl.formats.adapters.tokens.logprobs import prompt_logprobs
from mlxctl.formats.adapters.tokens.token_table import TokenBytes
from mlxctl.formats.parsers import (
    RESPONSE_TEMPLATE_ID,
    TemplateParsers,
    combined,
    thinking_parser,
    tool_parser,
)
from mlxctl.ir import GenerationRequest, ModelFacts, TokenLogprob, TokenScore
from mlxctl.ir.errors import BrokenModel

if TYPE_CHECKING:
    from mlxctl.formats.adapters.formats import ModelFormats

NO_TOOLS = tool_parser("null")
NO_THINKING = thinking_parser("null")

HiddenIds = Mapping[tuple[str, str], frozenset[int]]
"""The special tokens that are no text, by the ids of the parsers of calls and of thinking."""


class AnswerReader:
    """Parses one model's answers.

    Thread-safe: nothing changes after creation. Pickles by the ids of its parsers.
    """

    def __init__(
        self,
        facts: ModelFacts,
        *,
        name: str,
        tokens: TokenBytes,
        vocabulary_size: int,
        formats: "ModelFormats",
        hidden_ids: HiddenIds,
    ) -> None:
        self.facts = facts
        self.name = name
        self.tokens = tokens
        self.vocabulary_size = vocabulary_size
        self.supports_tools = formats.supports_tools
        self.supports_thinking = formats.supports_thinking
        self.verdict = formats.verdict
        self.stop_token_ids = formats.stop_token_ids
        self._tools = formats.tools
        self._thinking = formats.thinking
        self._hidden_ids = hidden_ids

    def __getstate__(self) -> dict[str, Any]:
        tools = (self._tools.id, *self._tools.combined_ids)
        return {**vars(self), "_tools": tools, "_thinking": self._thinking.id}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        is_described = RESPONSE_TEMPLATE_ID in (*state["_tools"], state["_thinking"])
        described = described_parsers(self.facts) if is_described else TemplateParsers()
        first, *others = map(described.tool_parser, state["_tools"])
        self._tools, self._thinking = combined(first, others), described.thinking_parser(state["_thinking"])

    def check_width(self, num_logits: int) -> None:
        """Raise BrokenModel when the tokenizer has more tokens than the weights.

        `num_logits` is the width of the model's output. Larger ids would index outside the weights.
        """
        if self.vocabulary_size > num_logits:
            message = (
                f"model {self.name!r}: the tokenizer has {self.vocabulary_size} tokens, "
                f"the weights only {num_logits}"
            )
            raise BrokenModel(self.facts.path, message)

    def create_stream_processor(self, request: GenerationRequest, prepared: PreparedInput) -> StreamProcessor:
        """Create the processor of one answer.

        Without available tools, a call is plain text.
        """
        choice = request.tool_choice
        has_tools = (
            bool(request.tools) and choice.mode != "none" and (self.supports_tools or choice.is_forced)
        )
        tools = self._tools if has_tools else NO_TOOLS
        thinking = NO_THINKING if request.prompts else self._thinking
        hidden_ids = self._hidden_ids[tools.id, thinking.id]
        return StreamProcessor(
            request,
            prepared,
            self.tokens,
            tools=tools,
            thinking=thinking,
            hidden_ids=hidden_ids,
            only_offered=self.verdict.tool_delivery == "injected",
        )

    def prompt_logprobs(
        self, prepared: PreparedInput, scores: Sequence[TokenScore]
    ) -> tuple[TokenLogprob, ...]:
        """Return the log-probabilities of an echoed prompt.

        `scores` belong to its tokens from the second on.
        """
        return prompt_logprobs(prepared.echo, prepared.token_ids, scores, self.tokens)
