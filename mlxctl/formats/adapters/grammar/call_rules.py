"""Grammar rules for one format's calls and the text around."""

from collections.abc import Mapping, Sequence

from mlxctl.formats.adapters.grammar.validation import GrammarValidator
from mlxctl.formats.adapters.prompt import ForcePrefix
from mlxctl.formats.grammars import Definition, LarkLiterals, call_arguments, text_without
from mlxctl.formats.parsers import Closing, ToolParser
from mlxctl.ir import JsonNotation, ToolSpec

_SPACE = "SPACE: / ?/"


class CallRules:
    """Rules for calls that `parser` parses and `force_call` begins.

    `whole` is a call, `first` the rest of one whose start is in the prompt. `stops` are texts of tokens that
    end an answer.
    """

    def __init__(
        self,
        parser: ToolParser,
        force_call: ForcePrefix,
        literals: LarkLiterals,
        stops: frozenset[str],
        validator: GrammarValidator,
    ) -> None:
        self._parser = parser
        self._force_call = force_call
        self._literals = literals
        self._stops = stops
        self._validator = validator

    def rules(self, tools: Sequence[ToolSpec], *, after: str, is_parallel: bool) -> list[str]:
        """Return the rules of calls.

        `first` is the rest of a call after the text `after`. With `is_parallel`, blocks hold several calls.
        """
        closing = self._closing(tools[0].name)
        rules = [_SPACE, f"whole: {self._block(tools, closing, '', is_parallel)}"]
        if after:
            rules.append(f"first: {self._block(tools, closing, after, is_parallel)}")
        if is_parallel and closing.call_separator is not None:
            rules += [
                "NUMBER: /[0-9]{1,2}/",
                f"another: {self._calls(tools, closing, closing.block[0], is_first=False)}",
            ]
        return rules

    def more(self, tools: Sequence[ToolSpec]) -> str:
        """Return an expression of further calls.

        "" where they differ from the first.
        """
        if self._parser.separator is None or not tools:
            return ""
        return f"({self._literals.literal(self._parser.separator)} whole)*"

    def _plain_openers(self) -> list[str]:
        return [text for text in self._parser.openers if not self._literals.begins_with_control(text)]

    def parts(self, tools: Sequence[ToolSpec]) -> Mapping[str, Definition]:
        """Return the grammar of each tool's arguments.

        Raises InvalidRequest for a schema that cannot be enforced.
        """
        return {f"arguments_{index}": self._arguments(tool) for index, tool in enumerate(tools)}

    def among_text(self, tools: Sequence[ToolSpec], *, is_parallel: bool) -> list[str]:
        """Return rules whose `free` is text with optional calls of these tools."""
        begin = self._force_call(None) or ""
        plain = sorted(
            filter(None, (self._literals.split(text)[0] or text for text in self._plain_openers()))
        )
        opener = (
            ""
            if self._literals.begins_with_control(begin)
            else max(filter(begin.startswith, plain), key=len, default="")
        )
        rules = [
            f"TEXT: {text_without(plain)}",
            r"GAP: /[ \t\r\n]*/",
            *self.rules(tools, after=opener, is_parallel=is_parallel),
        ]
        if begin[:1] in self._parser.bare_openers:
            rules.append(f"OTHER: {text_without(plain, first=self._parser.bare_openers)}")
            return [*rules, f"free: OTHER | GAP whole {self.more(tools) if is_parallel else ''}"]
        # Without a marker token, only one terminal can separate text from the marker's text after it.
        rules += (
            [f"BEGUN: TEXT {self._literals.literal(opener)}", f"AGAIN: GAP {self._literals.literal(opener)}"]
            if opener
            else []
        )
        call, again = ("BEGUN first", "AGAIN first") if opener else ("TEXT whole", "GAP whole")
        if self._parser.closer:
            return [*rules, f"free: ({call}){'*' if is_parallel else '?'} TEXT"]
        # After a call without a closer, text that begins like another call would be parsed as one.
        return [*rules, f"free: TEXT | {call} {f'({again})*' if is_parallel else ''}"]

    def _arguments(self, tool: ToolSpec) -> Definition:
        return self._validator.check(
            call_arguments(tool, self._closing(tool.name).notation, self._literals), tool.param
        )

    def _block(self, tools: Sequence[ToolSpec], closing: Closing, after: str, is_parallel: bool) -> str:
        """Return a block of calls, without its start `after`."""
        more = (
            f"({self._literals.literal(closing.call_separator)} another)*"
            if is_parallel and closing.call_separator is not None
            else ""
        )
        end = self._literals.literal(self._without_stop(closing.block[1]))
        return f"({self._calls(tools, closing, after, is_first=True)}) {more} {end}"

    def _calls(self, tools: Sequence[ToolSpec], closing: Closing, after: str, *, is_first: bool) -> str:
        """Return one call of a block, up to its separator."""
        space = "SPACE" if isinstance(closing.notation, JsonNotation) else ""
        end = closing.call_end.removesuffix(closing.block[1])
        end = self._literals.literal(end if closing.block[1] else self._without_stop(end))
        begins = [self._begin(tool, closing, after, is_first=is_first) for tool in tools]
        return " | ".join(f"{begin} {space} @arguments_{index} {end}" for index, begin in enumerate(begins))

    def _begin(self, tool: ToolSpec, closing: Closing, after: str, *, is_first: bool) -> str:
        prefix = self._force_call(tool.name) or ""
        assert prefix.startswith(after), "what begins any call begins the text of every call"
        text = prefix[len(after) :]
        if is_first or closing.counter is None:
            return self._literals.literal(text)
        left, right = closing.counter
        before, _, suffix = text.partition(f"{left}0{right}")
        return f"{self._literals.literal(before + left)} NUMBER {self._literals.literal(right + suffix)}"

    def _closing(self, name: str) -> Closing:
        closing = self._parser.closing_after(self._force_call(name) or "")
        assert closing is not None, "every format that can be forced declares how its calls continue"
        return closing

    def _without_stop(self, text: str) -> str:
        # A stop token ends the answer by itself.
        last = next((stop for stop in self._stops if text.endswith(stop)), "")
        return text.removesuffix(last)
