"""Pairs of conversations with one known difference each."""

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from random import Random
from typing import Any

from mlxctl.ir import (
    GenerationRequest,
    ImagePart,
    Message,
    SamplingOptions,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolResultPart,
    ToolSpec,
    text_message,
)

_WORDS = (
    "river",
    "stone",
    "lamp",
    "window",
    "garden",
    "paper",
    "cloud",
    "train",
    "bottle",
    "winter",
    "copper",
    "ladder",
    "signal",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Changed:
    """Two requests, and the expected explanation of the second.

    `old` and `new` are the differing texts. With `reason` None the prompt is unchanged. The place may also be
    `or_message`, where templates differ. With `is_one_run` all changed tokens are adjacent.
    """

    before: GenerationRequest
    after: GenerationRequest
    reason: str | None
    message: int | None = None
    tool: int | None = None
    part: str | None = None
    or_message: int | None = None
    is_one_run: bool = False
    new: str = ""
    old: str = ""


def changed_request(kind: str, random: Random) -> Changed:
    """Create a conversation and a copy with one difference of this kind."""
    return KINDS[kind](random)


def conversation(
    random: Random, *, num_tools: int | None = None, num_turns: int | None = None
) -> GenerationRequest:
    """Return an agent's conversation with tools, calls, results and a last question."""
    tools = tuple(
        _tool(random, number)
        for number in range(num_tools if num_tools is not None else random.randint(0, 3))
    )
    messages = [text_message("system", _text(random, 60))]
    for turn in range(num_turns if num_turns is not None else random.randint(1, 3)):
        messages.append(text_message("user", _text(random, 15)))
        if tools and random.random() < 0.7:
            messages += _call(random, random.choice(tools).name, turn)
        messages.append(text_message("assistant", _text(random, 20)))
    messages.append(text_message("user", _text(random, 15)))
    return GenerationRequest(model="small", messages=tuple(messages), tools=tools)


def _text(random: Random, num_words: int) -> str:
    """Return text without repeated runs: numbers make every run unique."""
    return " ".join(f"{random.choice(_WORDS)} {random.randrange(10**6)}" for _ in range(num_words // 2)) + "."


def _tool(random: Random, number: int) -> ToolSpec:
    properties = {
        name: {"type": "string", "description": _text(random, 4)}
        for name in random.sample(_WORDS, random.randint(1, 3))
    }
    name = f"{random.choice(_WORDS)}_{chr(97 + number)}{random.randrange(1000)}"
    parameters = {"type": "object", "properties": properties, "required": list(properties)[:1]}
    return ToolSpec(name=name, description=_text(random, 10), parameters=parameters)


def _call(random: Random, name: str, turn: int) -> list[Message]:
    call = ToolCallPart(
        id=f"call{turn:05}", name=name, arguments=json.dumps({random.choice(_WORDS): _text(random, 4)})
    )
    result = ToolResultPart(call_id=call.id, content=(TextPart(text=_text(random, 15)),))
    return [Message(role="assistant", parts=(call,)), Message(role="tool", parts=(result,))]


def _with_text(message: Message, text: str) -> Message:
    if message.role == "tool":
        return replace(message, parts=(replace(message.tool_results[0], content=(TextPart(text=text),)),))
    return text_message(message.role, text)


def _put(request: GenerationRequest, index: int, message: Message) -> GenerationRequest:
    return replace(request, messages=(*request.messages[:index], message, *request.messages[index + 1 :]))


def _reworded(random: Random, text: str) -> tuple[str, str, str]:
    """Return the text with one word changed, and both words.

    No other word begins with the letters of these two.
    """
    words = text.split(" ")
    place = 2 * random.randrange(len(words) // 2)
    words[place], old = random.choice(["Quartz", "Xylem", "Zebra"]), words[place]
    return " ".join(words), words[place], old


def _word_of(role: str) -> Callable[[Random], Changed]:
    def change(random: Random) -> Changed:
        request = conversation(random, num_tools=2 if role == "tool" else None)
        places = [
            index
            for index, message in enumerate(request.messages)
            if message.role == role and not message.tool_calls
        ]
        if not places:
            return change(random)
        index = random.choice(places)
        message = request.messages[index]
        text, new, old = _reworded(random, message.tool_results[0].text if role == "tool" else message.text)
        part = "tool result" if role == "tool" else "text"
        after = _put(request, index, _with_text(message, text))
        return Changed(
            before=request,
            after=after,
            reason="message_changed",
            message=index,
            part=part,
            is_one_run=True,
            new=new,
            old=old,
        )

    return change


def _head_line(random: Random) -> Changed:
    request = conversation(random)
    line = (
        f"Today is {random.choice(('Monday', 'Friday'))}, {random.randrange(10, 28)} June, "
        f"{random.randrange(10, 24)}:15."
    )
    after = _put(request, 0, text_message("system", f"{line}\n{request.messages[0].text}"))
    return Changed(
        before=request,
        after=after,
        reason="message_changed",
        message=0,
        part="text",
        is_one_run=True,
        new="Today",
    )


def _timestamp(random: Random) -> Changed:
    request = conversation(random)
    one, other = random.sample(range(10, 60), 2)
    rest = request.messages[0].text
    earlier, body = (f"It is 2026-06-11 09:{minute}.\n{rest}" for minute in (one, other))
    before, after = (_put(request, 0, text_message("system", text)) for text in (earlier, body))
    return Changed(before=before, after=after, reason="message_changed", message=0, part="text")


def _description(random: Random) -> Changed:
    request = conversation(random, num_tools=3)
    index = random.randrange(3)
    text, new, old = _reworded(random, request.tools[index].description)
    tools = list(request.tools)
    tools[index] = replace(tools[index], description=text)
    after = replace(request, tools=tuple(tools))
    return Changed(
        before=request, after=after, reason="tools_changed", tool=index, part="description", new=new, old=old
    )


def _tool_order(random: Random) -> Changed:
    request = conversation(random, num_tools=3)
    one, other = sorted(random.sample(range(3), 2))
    tools = list(request.tools)
    tools[one], tools[other] = tools[other], tools[one]
    return Changed(before=request, after=replace(request, tools=tuple(tools)), reason="tool_order", tool=one)


def _tool_added(random: Random) -> Changed:
    request = conversation(random, num_tools=2)
    index = random.randrange(3)
    tools = (*request.tools[:index], _tool(random, 9), *request.tools[index:])
    return Changed(before=request, after=replace(request, tools=tools), reason="tools_changed", tool=index)


def _edited_and_gone_on(random: Random) -> Changed:
    """Edit an earlier user message; the rest is unchanged."""
    request = conversation(random, num_tools=0, num_turns=2)
    text, new, old = _reworded(random, request.messages[1].text)
    after = _put(request, 1, text_message("user", text))
    more = (text_message("assistant", _text(random, 10)), text_message("user", _text(random, 10)))
    after = replace(after, messages=(*after.messages, *more))
    return Changed(
        before=request, after=after, reason="message_changed", message=1, part="text", new=new, old=old
    )


def _dropped_turn(random: Random) -> Changed:
    request = conversation(random, num_tools=0, num_turns=3)
    after = replace(request, messages=(request.messages[0], *request.messages[3:]))
    return Changed(before=request, after=after, reason="message_removed", message=1)


def _inserted_turn(random: Random) -> Changed:
    request = conversation(random, num_tools=0, num_turns=2)
    more = (text_message("user", _text(random, 10)), text_message("assistant", _text(random, 10)))
    after = replace(request, messages=(*request.messages[:3], *more, *request.messages[3:]))
    return Changed(before=request, after=after, reason="message_inserted", message=3)


def _arguments(random: Random) -> Changed:
    request = conversation(random, num_tools=1, num_turns=1)
    calls = [index for index, message in enumerate(request.messages) if message.tool_calls]
    if not calls:
        return _arguments(random)
    call = request.messages[calls[0]].tool_calls[0]
    ((name, value),) = json.loads(call.arguments).items()
    value, new, old = _reworded(random, value)
    after = _put(
        request,
        calls[0],
        Message(role="assistant", parts=(replace(call, arguments=json.dumps({name: value})),)),
    )
    part = f"arguments of the call of {call.name}"
    return Changed(
        before=request, after=after, reason="message_changed", message=calls[0], part=part, new=new, old=old
    )


def _thinking(random: Random) -> Changed:
    """Change the thinking of the current turn, which templates render."""
    request = conversation(random, num_tools=1, num_turns=0)
    thought = _text(random, 10)
    other, new, old = _reworded(random, thought)
    call, result = _call(random, request.tools[0].name, 0)
    earlier, body = (
        replace(
            request,
            messages=(*request.messages, replace(call, parts=(ThinkingPart(text=text), *call.parts)), result),
        )
        for text in (thought, other)
    )
    return Changed(
        before=earlier, after=body, reason="message_changed", message=2, part="thinking", new=new, old=old
    )


def _sampling(random: Random) -> Changed:
    request = conversation(random)
    after = replace(
        request, sampling=SamplingOptions(temperature=random.random(), seed=3), max_tokens=7, stop=("x",)
    )
    return Changed(before=request, after=after, reason=None)


def _call_ids(random: Random) -> Changed:
    """Change call ids, which some templates render."""
    request = conversation(random, num_tools=1, num_turns=1)
    calls = [index for index, message in enumerate(request.messages) if message.tool_calls]
    if not calls:
        return _call_ids(random)
    call, result = request.messages[calls[0]], request.messages[calls[0] + 1]
    after = _put(request, calls[0], replace(call, parts=(replace(call.tool_calls[0], id="fresh9999"),)))
    after = _put(
        after, calls[0] + 1, replace(result, parts=(replace(result.tool_results[0], call_id="fresh9999"),))
    )
    return Changed(
        before=request, after=after, reason="message_changed", message=calls[0], or_message=calls[0] + 1
    )


def image(random: Random) -> ImagePart:
    """Return bytes in place of an image: explanations use digests only."""
    return ImagePart(data=random.randbytes(16), media_type="image/png")


KINDS: dict[str, Callable[[Random], Any]] = {
    "word in the system prompt": _word_of("system"),
    "word in a question": _word_of("user"),
    "word in an answer": _word_of("assistant"),
    "word in a tool result": _word_of("tool"),
    "line before the head": _head_line,
    "time stamp": _timestamp,
    "tool description": _description,
    "tool order": _tool_order,
    "tool added": _tool_added,
    "edited, then continued": _edited_and_gone_on,
    "turn removed": _dropped_turn,
    "turn inserted": _inserted_turn,
    "arguments of a call": _arguments,
    "thinking": _thinking,
    "sampling": _sampling,
    "ids of calls": _call_ids,
}
