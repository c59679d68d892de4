"""Test of vision with images of one color each.

A model that guesses names one color right at most.
"""

import struct
import zlib

from mlxctl.ir import (
    GenerationRequest,
    ImagePart,
    Message,
    ModelCapabilities,
    ProbeVerdict,
    TextPart,
    TextResult,
    ThinkingOptions,
)
from mlxctl.probe.interview import GREEDY, Interview
from mlxctl.probe.questions import COLOR_QUESTION, COLORS
from mlxctl.state.stores import Finding

_MAX_TOKENS = 256
_SIDE = 64


async def check_vision(interview: Interview, known: ModelCapabilities) -> tuple[Finding, ...]:
    """Ask for the color of each image.

    A color in the thinking counts, too.
    """
    adapter = interview.adapter(known)
    transcripts = []
    for color in COLORS.values():
        image = ImagePart(data=one_color_png(color), media_type="image/png")
        request = GenerationRequest(
            model=interview.model,
            messages=(Message(role="user", parts=(image, TextPart(text=COLOR_QUESTION))),),
            sampling=GREEDY,
            thinking=ThinkingOptions(enabled=False),
            max_tokens=_MAX_TOKENS,
        )
        transcripts.append(await interview.ask(adapter, request))
    verdict, reason = judge([transcript.result for transcript in transcripts])
    num_tokens = len(transcripts[0].prepared.token_ids)
    return (
        Finding(
            question="vision",
            verdict=verdict,
            reason=reason,
            value={"side": _SIDE, "num_prompt_tokens": num_tokens},
            exchanges=tuple(transcript.evidence() for transcript in transcripts),
        ),
    )


def judge(results: list[TextResult]) -> tuple[ProbeVerdict, str]:
    """Return the verdict for the answers to the images, in order."""
    named = [_named(result) for result in results]
    num_right = sum(names == {color} for names, color in zip(named, COLORS, strict=True))
    if num_right == len(COLORS):
        return "yes", f"named the color of {num_right} images of {len(COLORS)}"
    if any(result.reason == "length" and not names for result, names in zip(results, named, strict=True)):
        return "unknown", f"had named no color after {_MAX_TOKENS} tokens"
    return "no", f"named the color of {num_right} images of {len(COLORS)}"


def _named(result: TextResult) -> set[str]:
    """Return the colors in the answer, or else in the thinking."""
    answer = result.text.casefold() or result.thinking.casefold()
    found = {color for color in COLORS if color in answer}
    return found or {color for color in COLORS if color in result.thinking.casefold()}


def one_color_png(color: tuple[int, int, int], *, side: int = _SIDE) -> bytes:
    """Return a square PNG file of one color.

    ISO/IEC 15948: 8 bits each of red, green and blue, no filter.
    """
    rows = (b"\0" + bytes(color) * side) * side
    header = struct.pack(">IIBBBBB", side, side, 8, 2, 0, 0, 0)
    parts = ((b"IHDR", header), (b"IDAT", zlib.compress(rows)), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))
        for name, data in parts
    )
