"""Values of stores and protocols. JSON stays bytes here."""

from dataclasses import dataclass
from pickle import PickleBuffer
from typing import Any

# Bodies from this size on are pickled out of band.
_LARGE_BYTES = 1 << 16


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredItem:
    """One item of a stored conversation; `body` is its JSON."""

    id: str
    body: bytes

    def __reduce__(self) -> tuple[Any, ...]:
        # PERF: a large body is not copied when it is pickled for another process.
        body = self.body if len(self.body) < _LARGE_BYTES else PickleBuffer(self.body)
        return _stored_item, (self.id, body)


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredResponse:
    """A stored response: body, own input items and output items.

    `body` is as sent; `previous_id` is the response that it continues.
    """

    id: str
    previous_id: str | None
    body: bytes
    input: tuple[StoredItem, ...]
    output: tuple[StoredItem, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredAgent:
    """An agent without its messages.

    `settings` is the JSON of its specification; times are unix seconds; `number` is its position in the list.
    `revision` counts the changes of its history: a turn that ends names the revision that it began with.
    `num_bytes` is the size of its messages. Without `is_persistent` it is in memory only.
    """

    number: int
    id: str
    model: str
    settings: bytes
    created: float
    last_access: float
    revision: int
    num_messages: int
    num_bytes: int
    is_persistent: bool = True


def _stored_item(item_id: str, body: bytes) -> StoredItem:
    return StoredItem(id=item_id, body=body)
