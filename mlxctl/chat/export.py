"""Export of a conversation: Markdown to read, JSON to process or reopen.

An existing file is never overwritten.
"""

from collections.abc import Sequence
from pathlib import Path

import msgspec

from mlxctl.chat.conversation import ChatMessage
from mlxctl.chat.messages_json import from_messages, to_messages
from mlxctl.ir import (
    AudioPart,
    DocumentPart,
    ImagePart,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolResultPart,
    VideoPart,
)
from mlxctl.ir.errors import StoreError
from mlxctl.state.locations import expand_user
from mlxctl.state.settings.documents import DocumentError, parse_json, read_text

_NAMES = {"user": "You", "assistant": "Model", "tool": "Tools", "system": "System"}


def export(path: Path, messages: Sequence[ChatMessage], *, model: str, system_prompt: str) -> None:
    """Write the conversation as .md or .json.

    The suffix of the file decides. Raises StoreError.
    """
    writers = {".md": to_markdown, ".json": to_json}
    if path.suffix not in writers:
        raise StoreError(f"{path.name!r} must end in .md or .json")
    text = writers[path.suffix](messages, model=model, system_prompt=system_prompt)
    try:
        with expand_user(path).open("x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        raise StoreError(f"{str(path)!r} exists already; choose another name") from None
    except OSError as error:
        raise StoreError(f"cannot write {str(path)!r}: {error.strerror}") from None


def load_exported(path: Path) -> tuple[str, list[ChatMessage]]:
    """Return system prompt and messages of an exported JSON file.

    Raises StoreError.
    """
    try:
        document = parse_json(read_text(expand_user(path)))
    except OSError as error:
        raise StoreError(f"cannot read {str(path)!r}: {error.strerror}") from None
    except DocumentError:
        raise StoreError(f"{str(path)!r} is not JSON; only chats exported as .json can be opened") from None
    try:
        return from_messages(document.get("messages") if isinstance(document, dict) else document)
    except StoreError as error:
        raise StoreError(f"{str(path)!r} contains no conversation: {error}") from None


def to_markdown(messages: Sequence[ChatMessage], *, model: str, system_prompt: str) -> str:
    """Return Markdown: a section per message, folded thinking, calls as code."""
    lines = [f"# Chat with {model}", ""]
    if system_prompt:
        lines += ["## System", "", system_prompt, ""]
    for item in messages:
        lines += [f"## {_NAMES[item.message.role]}{' (partial)' if item.is_partial else ''}", ""]
        for part in item.message.parts:
            lines += [*_markdown_part(part), ""]
        if item.statistics is not None and (line := item.statistics.line()):
            lines += [f"*{line}*", ""]
    return "\n".join(lines)


def to_json(messages: Sequence[ChatMessage], *, model: str, system_prompt: str) -> str:
    """Return a JSON document whose messages are OpenAI chat messages."""
    system = [{"role": "system", "content": system_prompt}] if system_prompt else []
    document = {"model": model, "messages": [*system, *to_messages(messages)]}
    return msgspec.json.format(msgspec.json.encode(document), indent=2).decode() + "\n"


def _markdown_part(part: object) -> list[str]:
    match part:
        case TextPart():
            return [part.text]
        case ThinkingPart():
            return ["<details><summary>Thinking</summary>", "", part.text, "", "</details>"]
        case ToolCallPart():
            return [f"Calls `{part.name}`:", "", "```json", part.arguments, "```"]
        case ToolResultPart():
            return ["```text", part.text, "```"]
        case ImagePart():
            return [f"(image, {part.media_type})"]
        case AudioPart():
            return [f"(audio, {part.media_type})"]
        case VideoPart():
            return ["(video)"]
        case DocumentPart():
            return [f"(file, {part.filename or 'PDF'})"]
        case _:
            return []
