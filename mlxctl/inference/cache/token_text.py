"""Text of a run of tokens, with images by name. Pure."""

from collections.abc import Callable, Sequence

from mlxctl.ir.tokens import Salt, Tokens

_NAME_DIGITS = 8
_ID_DIGEST_BYTES = 6


def token_text(
    tokens: Tokens, salts: Sequence[Salt], start: int, text_of: Callable[[Tokens], str | None]
) -> str | None:
    """Return the text of tokens, with `[image 0a1b2c3d]` for each image.

    `start` is the position of the first token. The name is a prefix of the image's digest, so that different
    images differ. None if `text_of` returns None.
    """
    pieces: list[str | None] = []
    position = start
    for salt in (salt for salt in salts if salt.is_image):
        pieces += [
            text_of(tokens[position - start : max(salt.start - start, 0)]),
            f"[image {salt.digest.hex()[:_NAME_DIGITS]}]",
        ]
        position = salt.end
    pieces.append(text_of(tokens[position - start :]))
    known = [piece for piece in pieces if piece is not None]
    return "".join(known) if len(known) == len(pieces) else None


def comparable_ids(tokens: Tokens, salts: Sequence[Salt], start: int) -> list[int]:
    """Return ids with negative numbers in place of image tokens.

    The numbers are made of the images' digests. So two runs are equal only if their images are.
    """
    ids = list(tokens)
    for salt in salts:
        name = -1 - int.from_bytes(salt.digest[:_ID_DIGEST_BYTES], "big")
        for position in range(max(salt.start - start, 0), min(salt.end - start, len(ids))):
            ids[position] = name
    return ids
