"""Input item lists and deletions of stored responses."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, cast

import msgspec
from msgspec import Struct

from mlxctl.ir import StoredItem
from mlxctl.ir.errors import InvalidRequest
from mlxctl.protocols.openai.lists import DEFAULT_PAGE_LIMIT, Deletion, num_fitting, parse_limit


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """The requested page of items, newest first unless `asc`.

    It has up to `limit` items after the id `after`. Large items end a page earlier.
    """

    limit: int = DEFAULT_PAGE_LIMIT
    order: Literal["asc", "desc"] = "desc"
    after: str | None = None

    @classmethod
    def read(cls, *, limit: str | None, order: str | None, after: str | None) -> "Page":
        """Parse the query parameters. Raises InvalidRequest."""
        if order not in (None, "asc", "desc"):
            raise InvalidRequest(
                f"order is {order!r}, which is not supported here; use one of: 'asc', 'desc'", param="order"
            )
        return cls(limit=parse_limit(limit), order="asc" if order == "asc" else "desc", after=after)

    def cut(self, items: Sequence[StoredItem]) -> tuple[list[StoredItem], bool]:
        """Return the page's items and whether there are more.

        Raises InvalidRequest for an unknown `after`.
        """
        ordered = list(items) if self.order == "asc" else list(reversed(items))
        start = 0
        if self.after is not None:
            ids = [item.id for item in ordered]
            if self.after not in ids:
                raise InvalidRequest(
                    f"after is {self.after!r}, which is not the id of an item in this list", param="after"
                )
            start = ids.index(self.after) + 1
        wanted = ordered[start : start + self.limit]
        num_fitting_entries = num_fitting([len(item.body) for item in wanted])
        return wanted[:num_fitting_entries], len(ordered) > start + num_fitting_entries


class ItemList(Struct):
    """A page of input items, as sent, with ids and types."""

    object: Literal["list"]
    data: list[dict[str, Any]]
    first_id: str | None
    last_id: str | None
    has_more: bool


def encode_item_list(items: Sequence[StoredItem], page: Page) -> bytes:
    """Return the body for a page of items. Raises InvalidRequest."""
    chosen, has_more = page.cut(items)
    return msgspec.json.encode(
        ItemList(
            object="list",
            # Stored items are JSON already.
            data=[cast("dict[str, Any]", msgspec.Raw(item.body)) for item in chosen],
            first_id=chosen[0].id if chosen else None,
            last_id=chosen[-1].id if chosen else None,
            has_more=has_more,
        )
    )


def encode_deletion(response_id: str) -> bytes:
    """Return the body after a response was deleted."""
    return msgspec.json.encode(Deletion(id=response_id, object="response", deleted=True))
