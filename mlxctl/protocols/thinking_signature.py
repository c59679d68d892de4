"""The signature of thinking: opaque to the caller, who sends it back as it is.

Anthropic calls it so, OpenAI `encrypted_content`.

It proves nothing and protects nothing. When the caller asked not to see the thinking, or to have it carried,
the signature carries it, so that a replayed conversation still holds what the model thought and the prompt
stays the same, token for token.
"""

import base64
import binascii
import hashlib
import zlib

_DIGEST = b"d"
_CARRIED = b"c"
# SEC: a few kilobytes of deflate can unpack to gigabytes; no model thinks longer than this.
_MAX_THINKING_BYTES = 4 * 1024 * 1024


def sign(thinking: str, *, carry: bool) -> str:
    """Return a signature for `thinking`: a digest, or the text itself when the signature has to carry it."""
    text = thinking.encode()
    content = (
        _CARRIED + zlib.compress(text) if carry else _DIGEST + hashlib.blake2b(text, digest_size=24).digest()
    )
    return base64.b64encode(content).decode()


def thinking_from_signature(signature: str | None) -> str:
    """Return the thinking that a signature carries; "" for any that carries none, whoever made it."""
    try:
        content = base64.b64decode(signature or "", validate=True)
        if not content.startswith(_CARRIED):
            return ""
        return zlib.decompressobj().decompress(content[1:], _MAX_THINKING_BYTES).decode()
    except (binascii.Error, ValueError, zlib.error):
        return ""
