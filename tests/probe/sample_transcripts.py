"""What a model might have said, without a model."""

from mlxctl.adapters import PreparedInput
from mlxctl.ir import Finished, GenerationRequest, SamplingParams, TextDelta, Usage, collect, text_message
from mlxctl.probe.interview import ProbeTranscript
from mlxctl.probe.parser_sweep import ToolAnswers
from mlxctl.probe.questions import TOOL_QUESTIONS, ToolQuestion


def said(output: str, question: ToolQuestion | None = None, *, prompt_tail: str = "") -> ProbeTranscript:
    """An answer to a question whose tool was on offer, or to one without tools."""
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


def answers(*outputs: str, unasked: str = "I do not know.", thinking_parser_id: str = "null") -> ToolAnswers:
    """Answers to the tool questions, in their order."""
    asked = tuple(
        (question, said(output, question)) for question, output in zip(TOOL_QUESTIONS, outputs, strict=False)
    )
    return ToolAnswers(asked=asked, unasked=said(unasked), thinking_parser_id=thinking_parser_id)
