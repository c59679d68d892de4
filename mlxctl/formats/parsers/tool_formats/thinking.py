"""All formats of thinking: a row for each.

Templates are tried against them in this order: a format stands before those whose markers it shares.
"""

from collections.abc import Mapping
from dataclasses import replace

from mlxctl.formats.parsers.declarations import ThinkingParser
from mlxctl.formats.parsers.tool_formats import null


def _tagged(
    parser_id: str, opener: str, closer: str, *, gap: str = "", after: str = "", supports_toggle: bool = True
) -> ThinkingParser:
    """Return a format of thinking between two tags.

    `gap` stands between the tags of an empty block, its last character before the closing tag of any;
    `after` follows that tag.
    """
    return ThinkingParser(
        id=parser_id,
        opener=opener,
        closer=closer,
        trims="\n",
        closed_block=f"{opener}{gap}{closer}{after}",
        closing=f"{gap[-1:]}{closer}{after}",
        supports_toggle=supports_toggle,
    )


def _harmony_analysis() -> ThinkingParser:
    """The analysis channel of the harmony format of gpt-oss.

    Each message has a header: `<|start|>assistant<|channel|>analysis<|message|>` begins thinking, `final` the
    answer, `commentary` without a recipient text before a call. A message to a recipient that is no available
    tool is dropped. Thinking cannot be turned off; an empty analysis makes it less likely. LLM-jp's tokenizer
    decodes a space after each control token, which is part of no text.
    """
    start, end, opener = "<|start|>assistant", "<|end|>", "<|channel|>analysis<|message|>"
    channels = ("final", "commentary")
    # Models write the type of the content in several ways, and forget tokens of a header.
    types = ("", " <|constrain|>json", "<|constrain|>json", " json", " <|constrain|> json")
    return ThinkingParser(
        id="harmony_analysis",
        opener=opener,
        closer=end,
        other_openers=("<|channel|> analysis<|message|> ",),
        other_closers=(f"{end}assistant",),
        wrappers=(
            start,
            "<|start|> assistant",
            *(f"<|channel|>{channel}{kind}<|message|>" for channel in channels for kind in types),
            *(f"<|channel|> {channel}{kind}<|message|> " for channel in channels for kind in types),
            "<|return|>",
            "<|call|>",
        ),
        stray_markers=("<|start|>",),
        dropped_openers=(
            f"{start} to=",
            "<|start|> assistant to=",
            f"{end}assistant to=",
            "<|channel|>commentary to=",
            "<|channel|> commentary to=",
            "<|channel|>analysis to=",
        ),
        header_ends=("<|message|>", "<|channel|>commentary<|message|>"),
        has_messages=True,
        message_break="\n",
        closed_block=f"{opener}{end}{start}",
        closing=f"{end}{start}",
    )


def _kimi_k3_think() -> ThinkingParser:
    """A `think` section; the answer is in a section called `response`."""
    # Models forget the last token, and an answer may be cut off before it. Some put spaces around the name.
    answer = ("<|open|>response", "<|close|>response", "<|close|>message")
    return replace(
        _tagged("kimi_k3_think", "<|open|>think<|sep|>", "<|close|>think<|sep|>"),
        wrappers=(
            *(f"{begin}<|sep|>" for begin in answer),
            *(f"{begin.replace('|>', '|> ')} <|sep|>" for begin in answer),
        ),
        stray_markers=(*answer, "<|open|>", "<|close|>"),
        other_closers=("<|close|>think", "<|open|>response<|sep|>"),
    )


def _muse_self() -> ThinkingParser:
    """Messages to `self`.

    Messages to `user` are the answer, those to `commentary` text before a call. Messages to others, such as
    `developer`, are dropped.
    """
    start, end, bare = "<|start|>assistant", "<|eom|>", " to="
    # The last ones, and `bare`, are headers without their first tokens, or without any.
    headers = tuple(f"{begin} to=" for begin in (start, f"{end}assistant", end))
    answers = ("user", "commentary")
    return ThinkingParser(
        id="muse_self",
        opener=f"{start} to=self<|message|>",
        closer=end,
        other_openers=(
            f"{start}to=self<|message|>",
            f"{start}<|message|>",
            *(f"{header}self<|message|>" for header in (*headers[1:], bare)),
        ),
        other_closers=("<|eot|>",),
        wrappers=(
            start,
            *(f"{header}{name}<|message|>" for header in (*headers, bare) for name in answers),
            *(f"{start}to={name}<|message|>" for name in answers),
            end,
            "<|eot|>",
        ),
        dropped_openers=(*headers, f"{start}to=", f"{bare}developer<|message|>"),
        header_ends=("<|message|>",),
        identifying_texts=(" to=self<|message|>",),
        has_messages=True,
        closed_block=f"{start} to=self<|message|>{end}{start}",
        closing=f"{end}{start}",
    )


_PARSERS = (
    # Hunyuan A13B: the answer is in a tag, too.
    replace(
        _tagged("hunyuan_answer", "<think>", "</think>", gap="\n\n", after="\n"),
        wrappers=("<answer>", "</answer>", "\n</answer>"),
        identifying_texts=("<answer>",),
    ),
    # Qwen3, DeepSeek-R1 and others.
    _tagged("think_tag", "<think>", "</think>", gap="\n\n", after="\n\n"),
    _harmony_analysis(),
    # Magistral and Ministral.
    _tagged("mistral_think", "[THINK]", "[/THINK]"),
    _tagged("seed_think", "<seed:think>", "</seed:think>", gap="\n", after="\n"),
    # Command A and R7B. Texts that cite a document or tool result are enclosed in `<co>`.
    replace(
        _tagged("cohere_think", "<|START_THINKING|>", "<|END_THINKING|>"),
        trims="\n ",
        wrappers=("<|START_RESPONSE|>", "<|END_RESPONSE|>", "<|START_TEXT|>", "<|END_TEXT|>"),
        citation_tag="co",
    ),
    # Gemma 4 sometimes leaves out the channel's name, or the marker before it.
    ThinkingParser(
        id="gemma4_channel",
        opener="<|channel>thought",
        closer="<channel|>",
        trims="\n",
        other_openers=("<|channel>",),
        bare_opener="thought\n",
        closed_block="<|channel>thought\n<channel|>",
        closing="<channel|>",
        supports_toggle=True,
    ),
    _kimi_k3_think(),
    # MiniMax M3.
    _tagged("mm_think", "<mm:think>", "</mm:think>"),
    # Hy3.
    _tagged("hy_think", "<think:opensource>", "</think:opensource>"),
    _tagged("longcat_think", "<longcat_think>", "</longcat_think>", gap="\n\n", after="\n"),
    _muse_self(),
    # Solar Open: the message that begins with `<|content|>` is the answer.
    ThinkingParser(
        id="solar_think",
        opener="<|think|>",
        closer="<|end|>",
        other_closers=("<|begin|>assistant",),
        wrappers=("<|begin|>assistant", "<|content|>"),
        closed_block="<|think|><|end|><|begin|>assistant",
        closing="<|end|><|begin|>assistant",
        supports_toggle=True,
    ),
    _tagged("apertus_inner", "<|inner_prefix|>", "<|inner_suffix|>"),
    # Granite 3.2.
    ThinkingParser(
        id="granite_prose",
        opener="Here is my thought process:",
        closer="Here is my response:",
        trims="\n ",
        other_openers=("Here's my thought process:",),
        other_closers=("Here's my response:",),
        closed_block="Here is my thought process:\n\nHere is my response:\n\n",
        closing="\n\nHere is my response:\n\n",
        supports_toggle=True,
    ),
    replace(
        _tagged(
            "apriel_steps",
            "Here are my reasoning steps:",
            "[BEGIN FINAL RESPONSE]",
            gap="\n\n",
            after="\n",
            supports_toggle=False,
        ),
        wrappers=("[END FINAL RESPONSE]",),
    ),
    # Functionary 3.2 has no thinking: its text is a message to `all`.
    ThinkingParser(
        id="functionary_all", prompt_ends=(">>>",), identifying_texts=(">>>all",), wrappers=(">>>all\n",)
    ),
    _tagged("plamo_think", "<|plamo:begin_think:plamo|>", "<|plamo:end_think:plamo|>"),
    # K2 Horizon has other tags for less effort.
    replace(
        _tagged("ifm_think", "<ifm|think>", "</ifm|think>"),
        other_openers=("<ifm|think_fast>", "<ifm|think_faster>"),
        other_closers=("</ifm|think_fast>", "</ifm|think_faster>"),
    ),
    # Inkling: other kinds of messages are the answer. What stands between `<|message_model|>` and the kind is
    # dropped.
    ThinkingParser(
        id="inkling_think",
        opener="<|content_thinking|>",
        closer="<|end_message|>",
        other_closers=("<|message_model|>", "<|content_model_end_sampling|>"),
        wrappers=(
            "<|content_text|>",
            "<|content_invoke_tool_text|>",
            "<|content_tool_error|>",
            "<|content_model_end_sampling|>",
        ),
        dropped_openers=("<|message_model|>",),
        has_messages=True,
        closed_block="<|content_thinking|><|end_message|><|message_model|>",
        closing="<|end_message|><|message_model|>",
    ),
    # Kimi VL.
    _tagged("kimi_vl_think", "◁think▷", "◁/think▷", gap="\n\n", after="\n\n", supports_toggle=False),
    null.THINKING,
)

THINKING_PARSERS: Mapping[str, ThinkingParser] = {parser.id: parser for parser in _PARSERS}
