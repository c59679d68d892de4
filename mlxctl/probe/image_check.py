"""Test of vision with images of one color, pairs and a video.

A model that guesses names one color right at most, and no order.
"""

import struct
import zlib
from collections.abc import Sequence

from mlxctl.ir import (
    GenerationRequest,
    ImagePart,
    Message,
    ModelCapabilities,
    ProbeVerdict,
    SeenPart,
    TextPart,
    TextResult,
    ThinkingOptions,
    VideoPart,
)
from mlxctl.probe.interview import GREEDY, Interview, ProbeTranscript
from mlxctl.probe.questions import COLOR_QUESTION, COLORS, COLORS_QUESTION, VIDEO_QUESTION
from mlxctl.state.stores import Finding

_MAX_TOKENS = 256
_SIDE = 64
_PAIRS = (("blue", "red"), ("red", "green"))
_FRAMES_A_COLOR = 4


async def check_vision(interview: Interview, known: ModelCapabilities) -> tuple[Finding, ...]:
    """Ask for the colors of images, of two together, and of videos.

    A color in the thinking counts, too.
    """
    adapter = interview.adapter(known)

    async def ask(question: str, *images: SeenPart) -> ProbeTranscript:
        return await interview.ask(adapter, _request(interview, question, *images))

    transcripts = [await ask(COLOR_QUESTION, _image(color)) for color in COLORS]
    pairs = [await ask(COLORS_QUESTION, *map(_image, pair)) for pair in _PAIRS]
    videos = [await ask(VIDEO_QUESTION, _video(pair)) for pair in _PAIRS]
    pair_verdict, pair_reason = judge_pairs([transcript.result for transcript in pairs])
    video_verdict, video_reason = judge_pairs([transcript.result for transcript in videos], kind="videos")
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
        Finding(
            question="multi_image",
            verdict=pair_verdict,
            reason=pair_reason,
            exchanges=tuple(transcript.evidence() for transcript in pairs),
        ),
        Finding(
            question="video",
            verdict=video_verdict,
            reason=video_reason,
            exchanges=tuple(transcript.evidence() for transcript in videos),
        ),
    )


def _image(color: str) -> ImagePart:
    return ImagePart(data=one_color_png(COLORS[color]), media_type="image/png")


def _video(colors: Sequence[str]) -> VideoPart:
    files = (one_color_png(COLORS[color]) for color in colors for _ in range(_FRAMES_A_COLOR))
    return VideoPart(files=tuple(files), has_frames=True)


def _request(interview: Interview, question: str, *images: SeenPart) -> GenerationRequest:
    return GenerationRequest(
        model=interview.model,
        messages=(Message(role="user", parts=(*images, TextPart(text=question))),),
        sampling=GREEDY,
        thinking=ThinkingOptions(enabled=False),
        max_tokens=_MAX_TOKENS,
    )


def judge_pairs(results: list[TextResult], *, kind: str = "pairs") -> tuple[ProbeVerdict, str]:
    """Return the verdict for the answers about two colors each."""
    num_right = 0
    for result, pair in zip(results, _PAIRS, strict=True):
        answer = (result.text or result.thinking).casefold()
        named = sorted((color for color in COLORS if color in answer), key=answer.index)
        num_right += named == list(pair)
    reason = f"named the colors of {num_right} {kind} of {len(_PAIRS)} in order"
    return ("yes" if num_right == len(_PAIRS) else "no"), reason


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
