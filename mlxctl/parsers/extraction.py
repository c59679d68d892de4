"""The whole of an answer at once, read by the same machine that reads it as it streams."""

from collections.abc import Sequence

from mlxctl.ir import Finished, Message, ToolSpec, Usage, collect
from mlxctl.parsers.declarations import ThinkingParser, ToolParser
from mlxctl.parsers.formats import null
from mlxctl.parsers.machine import AnswerMachine


def extract(
    text: str,
    *,
    tools: ToolParser = null.TOOLS,
    thinking: ThinkingParser = null.THINKING,
    offered: Sequence[ToolSpec] = (),
    prompt_tail: str = "",
) -> Message:
    """Read a whole answer into an assistant message of text, thinking and tool calls, in the model's order."""
    machine = AnswerMachine(tools=tools, thinking=thinking, offered=offered, prompt_tail=prompt_tail)
    finished = Finished(reason="stop", usage=Usage(num_prompt_tokens=0))
    return collect([*machine.feed(text), *machine.finish(), finished]).message
