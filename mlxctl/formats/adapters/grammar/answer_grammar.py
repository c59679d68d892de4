"""Grammars of whole answers: a thought, then calls or structured output.

For a call, the grammar enforces the tool's name and arguments that fit its schema. The text that forces a
call is part of the prompt, and the grammar begins after it.
"""

from collections.abc import Sequence

from mlxctl.formats.adapters.grammar.call_rules import CallRules
from mlxctl.formats.adapters.grammar.validation import GrammarValidator
from mlxctl.formats.adapters.prompt import ForcePrefix, Prompt
from mlxctl.formats.adapters.tokens.vocabulary import Vocabulary
from mlxctl.formats.grammars import Definition, LarkLiterals, compose
from mlxctl.formats.parsers import ThinkingParser, ToolParser
from mlxctl.ir import Constraint, GenerationRequest, Guidance, ThinkingLimit, ToolSpec
from mlxctl.ir.errors import InvalidRequest

# A limit above any context length means no limit. The engine's messages have 64-bit numbers.
_UNLIMITED_THINKING = 1 << 32


class AnswerGrammars:
    """Creates the guidance of requests to one model. Thread-safe."""

    def __init__(
        self,
        vocabulary: Vocabulary,
        *,
        tools: ToolParser,
        thinking: ThinkingParser,
        force_call: ForcePrefix,
        stop_token_ids: frozenset[int],
    ) -> None:
        self._vocabulary = vocabulary
        self._validator = GrammarValidator(vocabulary, stop_token_ids)
        self._eos_token_ids = tuple(sorted(stop_token_ids))
        self._thinking = thinking
        self._force_call = force_call
        control = [token for token in vocabulary.added.values() if token.is_control]
        self._literals = LarkLiterals((token.text, token.token_id) for token in control)
        self._stops = frozenset(token.text for token in control if token.token_id in stop_token_ids)
        self._calls = CallRules(tools, force_call, self._literals, self._stops, self._validator)

    def read_vocabulary(self) -> None:
        """Prepare the vocabulary now instead of for the first grammar.

        Blocks for a second or two.
        """
        self._validator.read_vocabulary()

    def guidance(self, request: GenerationRequest, prompt: Prompt, *, grammar_start: str) -> Guidance | None:
        """Return the guidance of an answer, None for none.

        Raises InvalidRequest for a constraint that cannot be enforced.

        `grammar_start` is the part of a forced call's arguments that is in the prompt.
        """
        grammar = self._grammar(request, prompt)
        thinking = self._thinking_limit(request, prompt)
        if not grammar:
            return None if thinking is None else Guidance(thinking=thinking)
        return Guidance(
            grammar=grammar, grammar_start=grammar_start, eos_token_ids=self._eos_token_ids, thinking=thinking
        )

    def text_guidance(self, constraint: Constraint | None) -> Guidance | None:
        """Return the guidance of a raw prompt's continuation."""
        if constraint is None:
            return None
        grammar = compose("start: @output", {"output": self._validator.compile(constraint)})
        return Guidance(grammar=grammar, eos_token_ids=self._eos_token_ids)

    def _grammar(self, request: GenerationRequest, prompt: Prompt) -> str:
        output = None if request.constraint is None else self._validator.compile(request.constraint)
        tool_specs = request.tools if request.tool_choice.mode != "none" else ()
        if request.tool_choice.is_forced:
            return self._forced_grammar(request, tool_specs)
        if output is not None:
            return self._output_grammar(request, output, tool_specs, prompt)
        if any(tool.is_strict for tool in tool_specs):
            return self._free_grammar(request, tool_specs, prompt)
        return ""

    def _forced_grammar(self, request: GenerationRequest, tool_specs: Sequence[ToolSpec]) -> str:
        """Return the grammar for the rest of a forced call."""
        name = request.tool_choice.name
        tools = [tool for tool in tool_specs if name in (None, tool.name)]
        is_parallel = name is None and request.parallel_tool_calls
        more = self._calls.more(tools) if is_parallel else ""
        rules = [
            *self._calls.rules(tools, after=self._force_call(name) or "", is_parallel=is_parallel),
            f"start: first {more}",
        ]
        return compose("\n".join(rules), self._calls.parts(tools))

    def _output_grammar(
        self, request: GenerationRequest, output: Definition, tool_specs: Sequence[ToolSpec], prompt: Prompt
    ) -> str:
        if not tool_specs:
            rules = [f"start: {self._before(prompt)} @output", *self._thought_rules(prompt)]
            return compose("\n".join(rules), {"output": output})
        is_parallel = request.parallel_tool_calls
        more = self._calls.more(tool_specs) if is_parallel else ""
        rules = [f"start: {self._before(prompt)} (@output | whole {more})"]
        rules += self._calls.rules(tool_specs, after="", is_parallel=is_parallel)
        return compose(
            "\n".join([*rules, *self._thought_rules(prompt)]),
            {"output": output, **self._calls.parts(tool_specs)},
        )

    def _free_grammar(
        self, request: GenerationRequest, tool_specs: Sequence[ToolSpec], prompt: Prompt
    ) -> str:
        """Return the grammar of text with optional calls."""
        if self._thinking.wrappers:
            return self._free_messages(tool_specs, prompt)
        rules = [
            f"start: {self._before(prompt)} free",
            *self._calls.among_text(tool_specs, is_parallel=request.parallel_tool_calls),
        ]
        return compose("\n".join([*rules, *self._thought_rules(prompt)]), self._calls.parts(tool_specs))

    def _free_messages(self, tool_specs: Sequence[ToolSpec], prompt: Prompt) -> str:
        """Return the grammar of messages that headers separate, such as harmony's.

        Text cannot replace a header. A header that ends in text is followed by another: in harmony, the text
        between them would be the recipient.
        """
        literal = self._literals.literal
        heads = [
            head for head in (*self._thinking.wrappers, self._thinking.opener) if head not in self._stops
        ]
        begun = [head for head in heads if not self._literals.ends_with_control(head)]
        closer = literal(self._thinking.closer)
        rules = [
            "message: " + " | ".join(literal(head) for head in heads if head not in begun),
            "begun: " + (" | ".join(map(literal, begun)) or '""'),
            r"TEXT: /(.|\n)+/",
            f"body: (TEXT | begun message | message | {closer})* (begun whole | whole)?",
            "start: " + ("message body | whole" if prompt.tail.endswith(tuple(begun) or "\0") else "body"),
        ]
        # In such a format an answer ends with its first call.
        rules += self._calls.rules(tool_specs, after="", is_parallel=False)
        return compose("\n".join(rules), self._calls.parts(tool_specs))

    def _before(self, prompt: Prompt) -> str:
        """Return what may precede the structured output: headers, a thought, white space."""
        if not self._thinking.opener:
            return ""
        head = "head{0,3}" if self._thinking.wrappers else ""
        if not prompt.may_think:
            return head
        blank = "BLANK" if self._thinking.trims else ""
        # White space that the format puts after a thought is dropped, so the answer begins with the output
        # itself.
        thought = f"thought {blank}" if self._is_open(prompt) else f"{head} (opener thought {blank})?"
        return f"{thought} {head}"

    def _thought_rules(self, prompt: Prompt) -> list[str]:
        literal = self._literals.literal
        rules: list[str] = []
        if heads := [literal(wrapper) for wrapper in self._thinking.wrappers if wrapper not in self._stops]:
            rules.append("head: " + " | ".join(heads))
        if prompt.may_think:
            closer = self._thinking.closer
            # A thought ends with a token that no text contains, or else at the first occurrence of the
            # closer's text.
            kind = "" if self._literals.begins_with_control(closer) else "[lazy]"
            if self._thinking.trims:
                blanks = self._thinking.trims.replace("\n", r"\n").replace("\t", r"\t").replace("\r", r"\r")
                rules.append(f"BLANK: /[{blanks}]{{0,3}}/")
            rules += [
                f"opener: {literal(self._thinking.opener)}",
                rf"thought{kind}: /(.|\n)*/ {literal(closer)}",
            ]
        return rules

    def _is_open(self, prompt: Prompt) -> bool:
        return bool(self._thinking.opener) and prompt.tail.startswith(self._thinking.opener)

    def _thinking_limit(self, request: GenerationRequest, prompt: Prompt) -> ThinkingLimit | None:
        max_tokens = request.thinking.max_tokens
        if max_tokens is None or max_tokens >= _UNLIMITED_THINKING or not prompt.may_think:
            return None
        encode = self._vocabulary.encode
        return ThinkingLimit(
            max_tokens=max_tokens,
            is_open=self._is_open(prompt),
            opener_ids=tuple(encode(self._thinking.opener)),
            closer_ids=tuple(encode(self._thinking.closer)),
            closing_ids=tuple(encode(self._thinking.closing)),
        )


def refuse_early_end(request: GenerationRequest, guidance: Guidance | None) -> None:
    """Raise InvalidRequest when a grammar may end before the request allows."""
    if guidance is None or not guidance.grammar:
        return
    for param, is_requested in (
        ("min_tokens", request.sampling.min_tokens),
        ("ignore_eos", request.ignore_eos),
    ):
        if is_requested:
            raise InvalidRequest(
                f"{param} cannot be combined with structured output or a forced call: "
                "they end when they are complete",
                param=param,
            )
