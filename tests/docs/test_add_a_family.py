"""The example format of the contributing guide works as written."""

import re
import textwrap
import tomllib
from pathlib import Path
from typing import Any

from mlxctl.formats.parsers import AnswerMachine, ToolParser, extract
from tests.formats.parsers.replay import chunkings, fold

GUIDE = Path(__file__).parents[2] / "docs" / "contributing" / "add-a-family.md"


def example(language: str) -> str:
    """Return the guide's code block in this language."""
    (block,) = re.findall(rf"    ```{language}\n(.*?)    ```", GUIDE.read_text(encoding="utf-8"), re.DOTALL)
    return textwrap.dedent(block)


def example_format() -> ToolParser:
    names: dict[str, Any] = {}
    exec(compile(example("python"), "acme_json.py", "exec"), names)
    parser: ToolParser = names["TOOLS"]
    return parser


def test_example_transcripts_parse_under_every_chunking() -> None:
    parser = example_format()
    for case in tomllib.loads(example("toml"))["transcript"]:
        for chunks in chunkings(case["text"]):
            machine = AnswerMachine(tools=parser)
            events = [event for chunk in chunks for event in machine.feed(chunk)]
            events += machine.finish(is_cut_off=case.get("is_cut_off", False))
            parsed = fold(events, num_complete_calls=machine.num_complete_calls)
            assert parsed == [tuple(part) for part in case["expect"]]


def test_example_forced_call_continues_as_documented() -> None:
    parser = example_format()
    (continued,) = tomllib.loads(example("toml"))["continued"]
    message = extract(continued, tools=parser, prompt_tail=parser.forced_prefix("f") or "")
    assert [call.name for call in message.tool_calls] == ["f"]
    assert message.text == ""
