"""Transcripts of answers without a model."""

from mlxctl.formats.adapters import PreparedInput
from mlxctl.ir import Finished, GenerationRequest, SamplingParams, TextDelta, Usage, collect, text_message
from mlxctl.probe.interview import ProbeTranscript
from mlxctl.probe.parser_sweep import ToolAnswers
from mlxctl.probe.questions import TOOL_QUESTIONS, ToolQuestion


def transcript(
    output: str, question: ToolQuestion | None = None, *, prompt_tail: str = ""
) -> ProbeTranscript:
    """Create an answer to a tool question, or to one without tools."""
    request = GenerationRequest(
        model="m", messages=(text_message("user", "?"),), tools=() if question is None else (question.tool,)
    )
    prepared = PreparedInput(
        token_ids=(1,),
        sampling=SamplingParams(),
        stop_token_ids=frozenset(),
        max_tokens=9,
        prompt_tail=prompt_tail,
    )
    finished = Finished(reason="stop", usage=Usage(num_prompt_tokens=1))
    return ProbeTranscript(
        request=request,
        prepared=prepared,
        prompt="?",
        output=output,
        token_ids=(2,),
        result=collect([TextDelta(text=output), finished]),
        duration_seconds=0.1,
    )


def answers(
    *outputs: str, without_tools: str = "I do not know.", thinking_parser_id: str = "null"
) -> ToolAnswers:
    """Create answers to the tool questions, in order."""
    with_tools = tuple(
        (question, transcript(output, question))
        for question, output in zip(TOOL_QUESTIONS, outputs, strict=False)
    )
    return ToolAnswers(
        with_tools=with_tools, without_tools=transcript(without_tools), thinking_parser_id=thinking_parser_id
    )
