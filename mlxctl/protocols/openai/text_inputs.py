"""Text inputs of completions and embeddings.

Texts or token ids, one or many.
"""

from typing import Annotated, TypeVar

from msgspec import Meta

from mlxctl.ir.errors import InvalidRequest

Item = TypeVar("Item")

TokenId = Annotated[int, Meta(ge=0)]
TextInputs = str | list[str | TokenId | list[TokenId]]

MAX_TEXTS = 2048
"""The most texts to embed in one request; OpenAI's limit."""


def read_texts(texts: TextInputs, field: str) -> tuple[str | tuple[int, ...], ...]:
    """Return the inputs of a field as separate texts.

    Each may be a text or a list of token ids. Raises InvalidRequest if there is none, or if single token ids
    stand among them.
    """
    if isinstance(texts, str):
        return (texts,)
    if not texts:
        raise InvalidRequest(f"{field} is empty; send a text, or token ids", param=field)
    if isinstance(texts[0], int):
        return (tuple(_all(texts, int, field, "token ids")),)
    found: list[str | tuple[int, ...]] = []
    for index, item in enumerate(texts):
        if isinstance(item, int):
            param = f"{field}[{index}]"
            message = f"{param} is a token id among texts; put the ids of one text into a list"
            raise InvalidRequest(message, param=param)
        found.append(item if isinstance(item, str) else tuple(item))
    return tuple(found)


def read_texts_to_embed(texts: TextInputs, field: str) -> tuple[str | tuple[int, ...], ...]:
    """Return the inputs of a field as separate texts to embed.

    Raises InvalidRequest for more than MAX_TEXTS, and for an empty one.
    """
    found = read_texts(texts, field)
    if len(found) > MAX_TEXTS:
        raise InvalidRequest(f"{field} has {len(found)} texts; a request may have {MAX_TEXTS}", param=field)
    if "" in found or () in found:
        param = f"{field}[{next(place for place, text in enumerate(found) if not text)}]"
        raise InvalidRequest(f"{param} is empty; leave it out", param=param)
    return found


def _all(items: list[str | int | list[int]], kind: type[Item], field: str, name: str) -> list[Item]:
    """Return the items, all of one type. Raises InvalidRequest."""
    fitting: list[Item] = [item for item in items if isinstance(item, kind)]
    if len(fitting) < len(items):
        index = next(index for index, item in enumerate(items) if not isinstance(item, kind))
        raise InvalidRequest(
            f"{field}[{index}] must be of the same type as the {name} before it", param=f"{field}[{index}]"
        )
    return fitting
