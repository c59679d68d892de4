"""Formats of one model: its prompt writers, parsers and stop tokens."""

from dataclasses import dataclass, replace

from mlxctl.formats.adapters.family_profile import FamilyProfile
from mlxctl.formats.adapters.media.audio_clips import AudioPlacement, open_audio_placement
from mlxctl.formats.adapters.media.images import MAX_VIDEO_FRAMES, ImagePlacement, open_image_placement
from mlxctl.formats.adapters.parser_choice import (
    described_parsers,
    find_thinking_parser,
    find_tool_parser,
    known_thinking_parser,
    known_tool_parser,
    thinking_source,
    with_native_formats,
)
from mlxctl.formats.adapters.prompt import PromptWriter
from mlxctl.formats.adapters.templates.chat_template import ChatTemplate
from mlxctl.formats.adapters.templates.probe_time import limited_probes
from mlxctl.formats.adapters.templates.shape import TemplateShape, probe_shape
from mlxctl.formats.adapters.tokens.stop_tokens import find_stop_tokens
from mlxctl.formats.adapters.tokens.vocabulary import Vocabulary
from mlxctl.formats.parsers import TemplateParsers, ThinkingParser, ToolParser, tool_parser
from mlxctl.ir import AdapterVerdict, DeliveryVerdict, ModelCapabilities, ModelFacts

# The efforts of a template that writes any value unchanged.
_COMMON_EFFORTS = ("low", "medium", "high")


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelFormats:
    """Prompt writers, parsers, stop tokens, and placement of media of one model.

    `writer` is for requests with tools, `plain_writer` for the others; both are None for a model without a
    chat template. `vision` and `audio` are None for a model without. `verdict` is what was detected.
    """

    tools: ToolParser
    thinking: ThinkingParser
    writer: PromptWriter | None
    plain_writer: PromptWriter | None
    vision: ImagePlacement | None
    audio: AudioPlacement | None
    stop_token_ids: frozenset[int]
    verdict: AdapterVerdict

    @property
    def supports_tools(self) -> bool:
        """Whether the model can be offered tools."""
        return self.writer is not None and self.writer.supports_tools

    @property
    def supports_thinking(self) -> bool:
        """Whether the model can think before it answers."""
        return self.writer is not None and self.writer.supports_thinking

    @property
    def can_force_tools(self) -> bool:
        """Whether a tool call can be forced."""
        return self.writer is not None and self.writer.can_force_tools


@limited_probes()
def detect_formats(
    facts: ModelFacts,
    vocabulary: Vocabulary,
    *,
    vocabulary_size: int,
    profile: FamilyProfile,
    capabilities: ModelCapabilities,
    max_image_pixels: int | None = None,
    max_video_frames: int = MAX_VIDEO_FRAMES,
) -> ModelFormats:
    """Detect a model's formats from its template and vocabulary.

    `profile` has the facts of the family; `capabilities` take precedence over profile and files. Raises
    BrokenModel for a template that cannot be used, or whose probes take too long.
    """
    vision, vision_problem = open_image_placement(
        facts, vocabulary, max_pixels=max_image_pixels, max_frames=max_video_frames
    )
    audio, audio_problem = open_audio_placement(facts, vocabulary)
    default = None if facts.chat_template is None else ChatTemplate(facts, facts.chat_template)
    # Everything about tools depends on the template for requests with tools.
    template = ChatTemplate(facts, facts.tool_template) if default and facts.tool_template else default
    placeholder = None if vision is None else vision.placeholder
    shape = TemplateShape() if template is None else probe_shape(template, placeholder=placeholder)
    described = described_parsers(facts)
    chosen, delivery = _choose_tools(template, shape, profile, capabilities, vocabulary, described)
    tools = with_native_formats(chosen, profile.tool_parser_ids, template, vocabulary)
    thinking = known_thinking_parser(capabilities, described) or _find_thinking(
        default, vocabulary, described
    )

    def writer_of(template: ChatTemplate, shape: TemplateShape, delivery: DeliveryVerdict) -> PromptWriter:
        return PromptWriter(
            template,
            shape,
            tools,
            thinking,
            profile=profile,
            injects_tools=delivery == "injected",
            calls_tools=capabilities.tools is not False,
            vision=vision,
            vision_problem=vision_problem,
            audio=audio,
            audio_problem=audio_problem,
        )

    writer = plain_writer = None if template is None else writer_of(template, shape, delivery)
    if default is not None and default is not template:
        plain_writer = writer_of(default, probe_shape(default, placeholder=placeholder), "none")
    ends = find_stop_tokens(
        facts,
        vocabulary,
        template,
        vocabulary_size=vocabulary_size,
        end_tokens=profile.end_tokens,
        after_call=shape.after_call,
        markers=tools.markers | thinking.markers,
    )
    return ModelFormats(
        tools=tools,
        thinking=thinking,
        writer=writer,
        plain_writer=plain_writer,
        vision=vision,
        audio=audio,
        stop_token_ids=ends - {vocabulary.id_of(thinking.closer)},
        verdict=replace(
            _verdict(facts.family, shape, tools, thinking, writer, delivery),
            takes_images=vision is not None,
            vision_problem=vision_problem,
            takes_audio=audio is not None,
            audio_problem=audio_problem,
        ),
    )


def _find_thinking(
    template: ChatTemplate | None, vocabulary: Vocabulary, described: TemplateParsers
) -> ThinkingParser:
    """Choose the format of thinking.

    Where the template writes none that we know, the model's files say how it thinks: its vocabulary may have
    markers that it was not trained on.
    """
    found = find_thinking_parser(template, vocabulary)
    is_written = template is not None and bool(found.opener) and found.opener in thinking_source(template)
    return found if is_written or not described.thinking.markers else described.thinking


def _verdict(
    family: str | None,
    shape: TemplateShape,
    tools: ToolParser,
    thinking: ThinkingParser,
    writer: PromptWriter | None,
    delivery: DeliveryVerdict,
) -> AdapterVerdict:
    supports_thinking = writer is not None and writer.supports_thinking
    return AdapterVerdict(
        family=family or "unknown",
        tool_parser_id=tools.id,
        thinking_parser_id=thinking.id,
        tool_delivery=delivery if writer is not None and writer.supports_tools else "none",
        can_force_tools=writer is not None and writer.can_force_tools,
        thinking_switch=None if writer is None else writer.thinking_switch,
        supports_thinking_toggle=supports_thinking and thinking.supports_toggle,
        opens_thinking=writer is not None and writer.opens_thinking(),
        keeps_thinking=shape.keeps_thinking,
        keeps_turn_thinking=bool(shape.thinking_field),
        takes_system=shape.takes_system,
        takes_later_system=shape.takes_later_system,
        takes_repeated_roles=shape.takes_repeated_roles,
        takes_tools=shape.takes_tools,
        takes_calls=shape.takes_calls,
        takes_parallel_calls=shape.takes_parallel_calls,
        takes_text_beside_calls=shape.takes_text_beside_calls,
        takes_results=shape.takes_results,
        efforts=(shape.efforts or _COMMON_EFFORTS) if shape.effort_variable else (),
    )


def _choose_tools(
    template: ChatTemplate | None,
    shape: TemplateShape,
    profile: FamilyProfile,
    capabilities: ModelCapabilities,
    vocabulary: Vocabulary,
    described: TemplateParsers,
) -> tuple[ToolParser, DeliveryVerdict]:
    """Choose the format of calls, and how tools reach the model.

    In the system prompt, unless the template offers them and writes calls that a parser reads. Where none of
    ours does, the model's files say how it calls.
    """
    if template is None:
        return tool_parser("null"), "none"
    known = known_tool_parser(capabilities, described)
    own = known or find_tool_parser(profile.tool_parser_ids, template, shape, vocabulary)
    if own.id == "null":
        own = described.tools
    is_native = shape.takes_tools and bool(own.opener)
    delivery: DeliveryVerdict = capabilities.tool_delivery or ("template" if is_native else "injected")
    if delivery == "injected":
        return known or tool_parser(profile.injected_parser_id), delivery
    return own, delivery
