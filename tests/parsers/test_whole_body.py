"""A format whose calls are known only at the end of a block: `[CALL]name(json)[/CALL]`, made up for this
test.
"""

import re
from collections.abc import Sequence

import pytest

from mlxctl.parsers import AnswerMachine
from mlxctl.parsers.declarations import ToolParser
from mlxctl.parsers.whole_body import WholeBodyReader

from .replay import chunkings, fold


def _calls(body: str) -> Sequence[tuple[str, str]]:
    if "!" in body:
        raise ValueError("no exclamation marks")
    return re.findall(r"(\w+)\(([^)]*)\)", body)


def _parser(closer: str) -> ToolParser:
    return ToolParser(
        id="shout", opener="[CALL]", closer=closer, open_body=lambda _: WholeBodyReader(closer, _calls)
    )


@pytest.mark.parametrize(
    ("closer", "text", "expected"),
    [
        ("[/CALL]", "So [CALL]f({})[/CALL] on", [("text", "So"), ("call", "f", "{}"), ("text", " on")]),
        ("[/CALL]", "[CALL]f({})g([/CA)[/CALL]", [("call", "f", "{}"), ("call", "g", "[/CA")]),
        ("[/CALL]", "[CALL]f({})[/CA", [("call", "f", "{}")]),
        ("[/CALL]", "[CALL]nothing[/CALL] [CALL]f(1)!", [("text", "[CALL]nothing[/CALL] [CALL]f(1)!")]),
        ("", "So [CALL]f({}) and g({})", [("text", "So"), ("call", "f", "{}"), ("call", "g", "{}")]),
    ],
)
def test_a_body_is_parsed_when_it_is_whole(closer: str, text: str, expected: list[tuple[str, ...]]) -> None:
    for chunks in chunkings(text):
        machine = AnswerMachine(tools=_parser(closer))
        events = [event for chunk in chunks for event in machine.feed(chunk)]
        assert fold(events + machine.finish()) == expected, chunks
