"""Files that a question names as `@path`, and completion of paths."""

import os
import re
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from mlxctl.chat.attachments import Attachment, is_audio, is_pdf, read_attachments
from mlxctl.chat.text_folding import is_long, mark_of
from mlxctl.ir.errors import StoreError
from mlxctl.state.locations import expand_user
from mlxctl.state.locations.regular_file import read_regular_file

MAX_FILE_BYTES = 1_000_000
"""Limit for the text of all files of one question."""

_MENTION = re.compile(r'(?<!\S)@(?:"([^"\n]+)"|(\S+))')
_TRAILING = ".,;:!?)]}'\""
_MEDIA_SUFFIXES = frozenset(
    {".png", ".jpg", ".jpeg", ".gif", ".webp", ".mp4", ".m4v", ".mov", ".webm", ".mkv"}
)
_MAX_ENTRIES = 2000
_MAX_CANDIDATES = 40


@dataclass(frozen=True, slots=True, kw_only=True)
class MentionedFiles:
    """What the mentions of a question add to it.

    `text` is the question followed by the content of the text files; `shown` has a mark for each long paste
    and file, and is None without any. `attachments` are images, videos, audio and PDF files. `unknown`
    mentions look like a path without a file.
    """

    text: str
    shown: str | None = None
    attachments: tuple[Attachment, ...] = ()
    files: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()

    @property
    def notes(self) -> list[str]:
        """Lines of text that name the files, and the mentions without one."""
        sent = f"(with {', '.join(self.files)})" if self.files else ""
        missing = f"(no file {', '.join(self.unknown)}; sent as text)" if self.unknown else ""
        return [note for note in (sent, missing) if note]


def read_mentions(
    question: str, *, shown: str | None = None, existing: tuple[Attachment, ...] = ()
) -> MentionedFiles:
    """Read the files that the question names.

    Only `shown` is searched, by default the question: what was typed, without pasted text. `existing`
    attachments of the chat count toward the limit. Raises StoreError for a file that cannot be sent.
    """
    texts, folded = [question], [shown or question]
    paths: list[Path] = []
    unknown: list[str] = []
    files = dict.fromkeys(match[1] or match[2] for match in _MENTION.finditer(shown or question))
    found: list[str] = []
    num_bytes = 0
    for name in files:
        path = _existing(name)
        if path is None:
            if "/" in name or "." in name.strip("."):
                unknown.append(name)
            continue
        found.append(str(path))
        most = MAX_FILE_BYTES - num_bytes
        data = None if path.suffix.lower() in _MEDIA_SUFFIXES else _read(path, most + 1)
        if data is None or is_pdf(data) or is_audio(data):
            paths.append(path)
            continue
        text = _as_text(path, data, most)
        num_bytes += len(text.encode())
        texts.append(_block(path, text))
        folded.append(mark_of(str(path), text) if is_long(text) else texts[-1])
    return MentionedFiles(
        text="\n\n".join(texts),
        shown="\n\n".join(folded) if folded != texts else None,
        attachments=read_attachments(paths, existing=existing),
        files=tuple(found),
        unknown=tuple(unknown),
    )


def _existing(name: str) -> Path | None:
    """Return the path of a file or directory.

    Punctuation after a name is not part of it.
    """
    for spelled in (name, name.rstrip(_TRAILING)):
        path = expand_user(spelled)
        try:
            if spelled and path.exists():
                return path
        except OSError:
            return None
    return None


def _read(path: Path, num_bytes: int) -> bytes:
    if not path.is_file():
        kind = "directory" if path.is_dir() else "device"
        raise StoreError(f"@{path} is a {kind}; only files can be sent")
    try:
        return read_regular_file(path, num_bytes)
    except OSError as error:
        raise StoreError(f"cannot read @{path}: {error.strerror}") from None


def _as_text(path: Path, data: bytes, most: int) -> str:
    if len(data) > most:
        raise StoreError(f"@{path}: the files of a question have more than {MAX_FILE_BYTES // 1_000_000} MB")
    if b"\0" in data:
        raise StoreError(f"@{path} is not a text, image, video, audio or PDF file; save it as one of these")
    return data.decode("utf-8", errors="replace")


def _block(path: Path, text: str) -> str:
    """Return the content as a fenced block, below the file's name."""
    fence = "`" * max(3, 1 + max(map(len, re.findall(r"`+", text)), default=0))
    return f"{path}:\n{fence}{path.suffix[1:]}\n{text.rstrip(chr(10))}\n{fence}"


def complete_path(word: str) -> list[str]:
    """Return the paths that continue `word`, the text after an @.

    Directories end in /. Hidden files need a dot. Reads at most some thousand entries of a directory.
    """
    directory, _, prefix = word.rpartition("/")
    parent = expand_user(f"{directory}/" if word.startswith("/") else directory or ".")
    try:
        with os.scandir(parent) as entries:
            found = sorted(
                f"{entry.name}/" if entry.is_dir() else entry.name
                for entry in islice(entries, _MAX_ENTRIES)
                if entry.name.startswith(prefix) and (prefix or not entry.name.startswith("."))
            )
    except OSError:
        return []
    base = f"{directory}/" if "/" in word else ""
    return [f"{base}{name}" for name in found[:_MAX_CANDIDATES]]


def common_prefix(words: list[str]) -> str:
    """Return what all words start with."""
    first, last = min(words), max(words)
    num_equal = next(
        (index for index, pair in enumerate(zip(first, last, strict=False)) if len(set(pair)) > 1), None
    )
    return first[: len(first) if num_equal is None else num_equal]
