"""Signatures of thinking, which clients send back unchanged.

Anthropic's `signature`, OpenAI's `encrypted_content`. A signature proves and protects nothing. If the client
omits or encrypts thinking, the signature carries its text, so that a replayed conversation renders to the
same prompt tokens.
"""

import base64
import binascii
import hashlib
import zlib

_DIGEST = b"d"
_CARRIED = b"c"
# SEC: a few kilobytes of deflate can unpack to gigabytes; this bounds the result.
_MAX_THINKING_BYTES = 4 * 1024 * 1024


def sign(thinking: str, *, carry: bool) -> str:
    """Return the signature of `thinking`.

    A digest, or with `carry` the compressed text.
    """
    text = thinking.encode()
    content = (
        _CARRIED + zlib.compress(text) if carry else _DIGEST + hashlib.blake2b(text, digest_size=24).digest()
    )
    return base64.b64encode(content).decode()


def thinking_from_signature(signature: str | None) -> str:
    """Return the thinking that a signature carries, "" if it carries none."""
    try:
        content = base64.b64decode(signature or "", validate=True)
        if not content.startswith(_CARRIED):
            return ""
        return zlib.decompressobj().decompress(content[1:], _MAX_THINKING_BYTES).decode()
    except (binascii.Error, ValueError, zlib.error):
        return ""
