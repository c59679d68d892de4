"""Output of a command as text, binary data as a note. Pure."""

import re

_SIGNATURES = {
    b"\x89PNG": "a PNG image",
    b"\xff\xd8\xff": "a JPEG image",
    b"GIF8": "a GIF image",
    b"%PDF-": "a PDF document",
    b"PK\x03\x04": "a ZIP archive",
    b"\x1f\x8b": "gzip data",
    b"BZh": "bzip2 data",
    b"\xfd7zXZ\x00": "xz data",
    b"\x28\xb5\x2f\xfd": "zstd data",
    b"\x7fELF": "an ELF program",
    b"\xcf\xfa\xed\xfe": "a Mach-O program",
    b"\xca\xfe\xba\xbe": "a Mach-O program",
    b"SQLite format 3\x00": "an SQLite database",
}
# Text has tabs, line ends, colors of a terminal, and progress bars that go back.
_NO_TEXT = re.compile(rb"[\x00-\x07\x0e-\x1a\x1c-\x1f]")
# Bytes that are not UTF-8 in more than this share of a line: not text in another encoding either.
_MAX_INVALID_SHARE = 0.3


def readable_output(first: bytes, last: bytes = b"", *, num_left_out: int = 0) -> str:
    """Return the beginning and the end of an output as text.

    Everything from the first to the last line that is no text becomes one note.
    """
    left_out = f"\n[{num_left_out:,} bytes left out]\n".encode() if num_left_out else b""
    lines = (first + left_out + last).splitlines(keepends=True)
    binary = [index for index, line in enumerate(lines) if _is_binary(line)]
    if not binary:
        return b"".join(lines).decode(errors="replace")
    start = next((index for index in range(binary[0]) if _kind(lines[index])), binary[0])
    head, middle, tail = (
        b"".join(part) for part in (lines[:start], lines[start : binary[-1] + 1], lines[binary[-1] + 1 :])
    )
    num_bytes = len(middle) + (num_left_out - len(left_out) if left_out in middle else 0)
    kind = _kind(middle)
    note = f"[{num_bytes:,} bytes that are no text{kind and f', {kind}'}; not shown]"
    parts = (head.decode(errors="replace").rstrip("\n"), note, tail.decode(errors="replace"))
    return "\n".join(part for part in parts if part)


def _is_binary(line: bytes) -> bool:
    if _NO_TEXT.search(line):
        return True
    num_invalid = sum(character == "\ufffd" for character in line.decode(errors="replace"))
    return num_invalid > max(2, _MAX_INVALID_SHARE * len(line))


def _kind(data: bytes) -> str:
    return next((name for signature, name in _SIGNATURES.items() if data.startswith(signature)), "")
