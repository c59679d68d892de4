"""What a whole answer may look like when a part of it is constrained: first the thought, then the form that was asked for.

Calls are enforced where a format writes their arguments as JSON: the tool's name, and arguments that fit its schema. What is put
into the prompt to force a call is not the grammar's; what follows it is.
"""

from collections.abc import Mapping, Sequence

from mlxctl.adapters.form_proof import FormProof
from mlxctl.adapters.prompt import ForcePrefix, Prompt
from mlxctl.adapters.vocabulary import Vocabulary
from mlxctl.errors import InvalidRequest
from mlxctl.grammars import Definition, Spelling, compose
from mlxctl.ir import Constraint, GenerationRequest, Guidance, ThinkingLimit, ToolSpec
from mlxctl.parsers import ThinkingParser, ToolParser

_SPACE = "SPACE: / ?/"
_TEXT = r"TEXT: /(.|\n)*/"


class AnswerGrammars:
    """Makes the guidance of requests to one model. Thread-safe: nothing changes after it was made."""

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
        self._proof = FormProof(vocabulary, stop_token_ids)
        self._tools = tools
        self._thinking = thinking
        self._force_call = force_call
        control = [token for token in vocabulary.added.values() if token.is_control]
        self._spelling = Spelling((token.text, token.token_id) for token in control)
        self._stops = {token.text for token in control if token.token_id in stop_token_ids}

    def guidance(self, request: GenerationRequest, prompt: Prompt, *, grammar_start: str) -> Guidance | None:
        """Return what guides the answer, None for nothing. Raises InvalidRequest for a form that cannot be enforced.

        `grammar_start` is the part of a forced call's arguments that the prompt took in.
        """
        grammar = self._grammar(request, prompt)
        thinking = self._thinking_limit(request, prompt)
        if not grammar and thinking is None:
            return None
        return Guidance(grammar=grammar, grammar_start=grammar_start if grammar else "", thinking=thinking)

    def text_guidance(self, constraint: Constraint | None) -> Guidance | None:
        """Return what guides the continuation of a text."""
        if constraint is None:
            return None
        return Guidance(grammar=compose("start: @form", {"form": self._proof.compile(constraint)}))

    def _grammar(self, request: GenerationRequest, prompt: Prompt) -> str:
        form = None if request.constraint is None else self._proof.compile(request.constraint)
        offered = request.tools if request.tool_choice.mode != "none" else ()
        if request.tool_choice.is_forced:
            return self._forced_grammar(request, offered)
        if form is not None:
            return self._form_grammar(request, form, offered, prompt)
        if any(tool.is_strict for tool in offered):
            return self._free_grammar(request, offered, prompt)
        return ""

    def _forced_grammar(self, request: GenerationRequest, offered: Sequence[ToolSpec]) -> str:
        """The rest of a call whose beginning is in the prompt; "" where a format's arguments are no JSON."""
        name = request.tool_choice.name
        tools = [tool for tool in offered if name in (None, tool.name)]
        calls = self._calls()
        if not calls.are_json(tools[0].name):
            return ""
        repeats = name is None and request.parallel_tool_calls
        rules = [*calls.rules(tools, after=self._force_call(name) or ""), f"start: first {calls.more(tools) if repeats else ''}"]
        return compose("\n".join(rules), calls.parts(tools))

    def _form_grammar(self, request: GenerationRequest, form: Definition, offered: Sequence[ToolSpec], prompt: Prompt) -> str:
        if not offered:
            rules = [f"start: {self._before(prompt)} @form", *self._thought_rules(prompt)]
            return compose("\n".join(rules), {"form": form})
        calls = self._calls()
        assert request.constraint is not None
        if not calls.are_json(offered[0].name):
            message = (
                f"{request.constraint.param} beside tools is not supported: this model writes its calls in another format than JSON"
            )
            raise InvalidRequest(f"{message}; set tool_choice to 'none', or send one of them", param=request.constraint.param)
        more = calls.more(offered) if request.parallel_tool_calls else ""
        rules = [f"start: {self._before(prompt)} (@form | whole {more})", *calls.rules(offered, after="")]
        return compose("\n".join([*rules, *self._thought_rules(prompt)]), {"form": form, **calls.parts(offered)})

    def _free_grammar(self, request: GenerationRequest, offered: Sequence[ToolSpec], prompt: Prompt) -> str:
        """Text in which calls may stand; "" where nothing tells text from calls for sure."""
        calls = self._calls()
        if self._thinking.wrappers or not calls.are_json(offered[0].name) or not calls.are_marked(offered[0].name):
            return ""
        times = "*" if request.parallel_tool_calls else "?"
        rules = [f"start: {self._before(prompt)} (TEXT whole){times} TEXT", _TEXT, *calls.rules(offered, after="")]
        return compose("\n".join([*rules, *self._thought_rules(prompt)]), calls.parts(offered))

    def _calls(self) -> "_Calls":
        return _Calls(self._tools, self._force_call, self._spelling, self._stops, self._proof)

    def _before(self, prompt: Prompt) -> str:
        """What may stand before the form: the heads of messages, a thought, the blanks behind it."""
        if not self._thinking.opener:
            return ""
        head = "head{0,3}" if self._thinking.wrappers else ""
        if not prompt.may_think:
            return head
        blank = "BLANK" if self._thinking.trims else ""
        # Behind a thought there may be what the format puts there: it is dropped, so that the answer begins with its form.
        thought = f"thought {blank}" if self._is_open(prompt) else f"{head} (opener thought {blank})?"
        return f"{thought} {head}"

    def _thought_rules(self, prompt: Prompt) -> list[str]:
        spell = self._spelling.spell
        rules: list[str] = []
        if heads := [spell(wrapper) for wrapper in self._thinking.wrappers if wrapper not in self._stops]:
            rules.append("head: " + " | ".join(heads))
        if prompt.may_think:
            closer = self._thinking.closer
            # The end of a thought is a token that no text holds, or else the first place where its text appears.
            kind = "" if self._spelling.begins_with_control(closer) else "[lazy]"
            if self._thinking.trims:
                blanks = self._thinking.trims.replace("\n", r"\n").replace("\t", r"\t").replace("\r", r"\r")
                rules.append(f"BLANK: /[{blanks}]{{0,3}}/")
            rules += [f"opener: {spell(self._thinking.opener)}", rf"thought{kind}: /(.|\n)*/ {spell(closer)}"]
        return rules

    def _is_open(self, prompt: Prompt) -> bool:
        return bool(self._thinking.opener) and prompt.tail.startswith(self._thinking.opener)

    def _thinking_limit(self, request: GenerationRequest, prompt: Prompt) -> ThinkingLimit | None:
        max_tokens = request.thinking.max_tokens
        if max_tokens is None or not prompt.may_think:
            return None
        encode = self._vocabulary.encode
        return ThinkingLimit(
            max_tokens=max_tokens,
            is_open=self._is_open(prompt),
            opener_ids=tuple(encode(self._thinking.opener)),
            closer_ids=tuple(encode(self._thinking.closer)),
            closing_ids=tuple(encode(self._thinking.closing)),
        )


class _Calls:
    """How the calls of one format are written, as rules of a grammar."""

    def __init__(self, parser: ToolParser, force_call: ForcePrefix, spelling: Spelling, stops: set[str], proof: FormProof) -> None:
        self._parser = parser
        self._proof = proof
        self._force_call = force_call
        self._spelling = spelling
        self._stops = stops

    def are_json(self, name: str) -> bool:
        """Whether arguments are written as JSON."""
        return self._closing(name) is not None

    def are_marked(self, name: str) -> bool:
        """Whether calls begin with a token that no text holds."""
        return self._spelling.begins_with_control(self._force_call(name) or "")

    def rules(self, tools: Sequence[ToolSpec], *, after: str) -> list[str]:
        """`whole` is a call of one of the tools, `first` what is left of one when `after` was said already."""
        rules = [_SPACE, "whole: " + " | ".join(self._call(tool, index, "") for index, tool in enumerate(tools))]
        if after:
            rules.append("first: " + " | ".join(self._call(tool, index, after) for index, tool in enumerate(tools)))
        return rules

    def more(self, tools: Sequence[ToolSpec]) -> str:
        """More calls behind the first, where a format writes them all alike."""
        if self._parser.separator is None or not tools:
            return ""
        return f"({self._spelling.spell(self._parser.separator)} whole)*"

    def parts(self, tools: Sequence[ToolSpec]) -> Mapping[str, Definition]:
        """The arguments of each tool."""
        return {f"arguments_{index}": self._proof.compile(_arguments_of(tool)) for index, tool in enumerate(tools)}

    def _call(self, tool: ToolSpec, index: int, after: str) -> str:
        prefix = self._force_call(tool.name) or ""
        assert prefix.startswith(after), "what forces any call begins the text of every call"
        begin = self._spelling.spell(prefix[len(after) :])
        return f"{begin} SPACE @arguments_{index} {self._spelling.spell(self._closing(tool.name) or '')}"

    def _closing(self, name: str) -> str | None:
        closing = self._parser.closing_behind(self._force_call(name) or "")
        # A stop token ends the answer by itself.
        last = next((stop for stop in self._stops if closing and closing.endswith(stop)), "")
        return closing.removesuffix(last) if closing else closing


def _arguments_of(tool: ToolSpec) -> Constraint:
    schema = {"type": "object", **tool.parameters}
    return Constraint(kind="json_schema", value=schema, param=tool.param, is_strict=tool.is_strict)


def refuse_early_end(request: GenerationRequest, guidance: Guidance | None) -> None:
    """Raise InvalidRequest when a grammar would have to end before the answer may."""
    if guidance is not None and guidance.grammar and request.sampling.min_tokens:
        raise InvalidRequest(
            "min_tokens cannot be combined with an answer in a given form, or a forced call: they end where they are complete",
            param="min_tokens",
        )
