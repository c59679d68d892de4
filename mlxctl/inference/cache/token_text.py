"""What a run of tokens says, for people: its text, with images by name. Pure."""

from collections.abc import Callable, Sequence

from mlxctl.ir.tokens import Salt, Tokens

_NAME_DIGITS = 8
_ID_DIGEST_BYTES = 6


def token_text(
    tokens: Tokens, salts: Sequence[Salt], start: int, text_of: Callable[[Tokens], str | None]
) -> str | None:
    """Return the text of tokens that stand from `start` on in their prompt, with `[image 0a1b2c3d]` for each
    image among them.

    The name is that of the image's digest, so that two that differ are told apart. None where `text_of` knows
    no text.
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
    """Return the ids of tokens that stand from `start` on; those of an image are negative, made of the
    image's digest.

    So two runs of ids are the same only if their images are.
    """
    ids = list(tokens)
    for salt in salts:
        name = -1 - int.from_bytes(salt.digest[:_ID_DIGEST_BYTES], "big")
        for position in range(max(salt.start - start, 0), min(salt.end - start, len(ids))):
            ids[position] = name
    return ids
