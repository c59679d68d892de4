"""How the calls of one format are written, and the text around them, as rules of a grammar."""

from collections.abc import Mapping, Sequence

from mlxctl.adapters.form_proof import FormProof
from mlxctl.adapters.prompt import ForcePrefix
from mlxctl.grammars import Definition, Spelling, call_arguments, text_without
from mlxctl.ir import JsonNotation, ToolSpec
from mlxctl.parsers import Closing, ToolParser

_SPACE = "SPACE: / ?/"


class CallRules:
    """Rules for the calls of a model that writes them as `parser` reads them, and begins them as `force_call` does.

    `whole` is a call, `first` what is left of one of which the beginning is there. `stops` are texts of tokens that end an answer.
    """

    def __init__(
        self, parser: ToolParser, force_call: ForcePrefix, spelling: Spelling, stops: frozenset[str], proof: FormProof
    ) -> None:
        self._parser = parser
        self._force_call = force_call
        self._spelling = spelling
        self._stops = stops
        self._proof = proof

    def rules(self, tools: Sequence[ToolSpec], *, after: str) -> list[str]:
        """Return the rules; `first` is what is left when `after` was said already."""
        rules = [_SPACE, "whole: " + " | ".join(self._call(tool, index, "") for index, tool in enumerate(tools))]
        if after:
            rules.append("first: " + " | ".join(self._call(tool, index, after) for index, tool in enumerate(tools)))
        return rules

    def more(self, tools: Sequence[ToolSpec]) -> str:
        """Return an expression of more calls behind the first, where a format writes them all alike."""
        if self._parser.separator is None or not tools:
            return ""
        return f"({self._spelling.spell(self._parser.separator)} whole)*"

    def parts(self, tools: Sequence[ToolSpec]) -> Mapping[str, Definition]:
        """Return the arguments of each tool. Raises InvalidRequest for a schema that cannot be enforced."""
        return {f"arguments_{index}": self._arguments(tool) for index, tool in enumerate(tools)}

    def among_text(self, tools: Sequence[ToolSpec], *, is_parallel: bool) -> list[str]:
        """Return rules of which `free` is any text in which calls may stand; where a call begins, it is one of these."""
        begin = self._force_call(None) or ""
        plain = [text for text in sorted(self._parser.openers) if not self._spelling.begins_with_control(text)]
        opener = "" if self._spelling.begins_with_control(begin) else max(filter(begin.startswith, plain), key=len, default="")
        rules = [f"TEXT: {text_without(plain)}", r"GAP: /[ \t\r\n]*/", *self.rules(tools, after=opener)]
        if begin[:1] in self._parser.bare_openers:
            rules.append(f"OTHER: {text_without(plain, first=self._parser.bare_openers)}")
            return [*rules, f"free: OTHER | GAP whole {self.more(tools)}"]
        # Where no token marks a call, only one terminal can tell a text from the marker behind it.
        rules += [f"BEGUN: TEXT {self._spelling.spell(opener)}", f"AGAIN: GAP {self._spelling.spell(opener)}"] if opener else []
        call, again = ("BEGUN first", "AGAIN first") if opener else ("TEXT whole", "GAP whole")
        if self._parser.closer:
            return [*rules, f"free: ({call}){'*' if is_parallel else '?'} TEXT"]
        # Behind a call that nothing closes, what looks like another one would be read as one.
        return [*rules, f"free: TEXT | {call} {f'({again})*' if is_parallel else ''}"]

    def _arguments(self, tool: ToolSpec) -> Definition:
        return self._proof.check(call_arguments(tool, self._closing(tool.name).notation, self._spelling), tool.param)

    def _call(self, tool: ToolSpec, index: int, after: str) -> str:
        prefix = self._force_call(tool.name) or ""
        assert prefix.startswith(after), "what begins any call begins the text of every call"
        closing = self._closing(tool.name)
        space = "SPACE" if isinstance(closing.notation, JsonNotation) else ""
        return f"{self._spelling.spell(prefix[len(after) :])} {space} @arguments_{index} {self._end(closing)}"

    def _closing(self, name: str) -> Closing:
        closing = self._parser.closing_behind(self._force_call(name) or "")
        assert closing is not None, "every format that can be forced says how its calls go on"
        return closing

    def _end(self, closing: Closing) -> str:
        # A stop token ends the answer by itself.
        last = next((stop for stop in self._stops if closing.text.endswith(stop)), "")
        return self._spelling.spell(closing.text.removesuffix(last))
