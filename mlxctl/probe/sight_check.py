"""Whether a model sees: it is shown pictures of one colour each, and has to name every one. Who guesses is right once at most."""

import struct
import zlib

from mlxctl.ir import GenerationRequest, ImagePart, Message, ModelCapabilities, TextPart, TextResult, ThinkingOptions
from mlxctl.probe.interview import GREEDY, Interview
from mlxctl.probe.questions import COLOUR_QUESTION, COLOURS
from mlxctl.stores import Finding, Verdict

_MAX_TOKENS = 256
_SIDE = 64


async def check_sight(interview: Interview, known: ModelCapabilities) -> tuple[Finding, ...]:
    """Show the pictures one after the other; a colour that is named in a thought only counts, too."""
    adapter = interview.adapter(known)
    transcripts = []
    for colour in COLOURS.values():
        picture = ImagePart(data=one_colour_png(colour), media_type="image/png")
        request = GenerationRequest(
            model=interview.model,
            messages=(Message(role="user", parts=(picture, TextPart(text=COLOUR_QUESTION))),),
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


def judge(results: list[TextResult]) -> tuple[Verdict, str]:
    """Say what follows from the answers to the pictures, in their order."""
    named = [_named(result) for result in results]
    num_right = sum(names == {colour} for names, colour in zip(named, COLOURS, strict=True))
    if num_right == len(COLOURS):
        return "yes", f"named the colour of {num_right} pictures of {len(COLOURS)}"
    if any(result.reason == "length" and not names for result, names in zip(results, named, strict=True)):
        return "unknown", f"had named no colour after {_MAX_TOKENS} tokens"
    return "no", f"named the colour of {num_right} pictures of {len(COLOURS)}"


def _named(result: TextResult) -> set[str]:
    """Return the colours in the answer, or else in the thought before it."""
    said = result.text.casefold() or result.thinking.casefold()
    found = {colour for colour in COLOURS if colour in said}
    return found or {colour for colour in COLOURS if colour in result.thinking.casefold()}


def one_colour_png(colour: tuple[int, int, int], *, side: int = _SIDE) -> bytes:
    """Return a square picture of one colour as a PNG file (ISO/IEC 15948): 8 bits each of red, green and blue, no filter."""
    rows = (b"\0" + bytes(colour) * side) * side
    header = struct.pack(">IIBBBBB", side, side, 8, 2, 0, 0, 0)
    parts = ((b"IHDR", header), (b"IDAT", zlib.compress(rows)), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data)) for name, data in parts
    )
