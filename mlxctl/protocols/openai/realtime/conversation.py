"""The items of one session, in their order."""

from mlxctl.ir.errors import InvalidRequest
from mlxctl.protocols.openai.realtime.items import CallItem, CallOutputItem, Item

# A policy: more than an hour of turns.
MAX_ITEMS = 4096
_FIRST = "root"


class Conversation:
    """Items by id, with a bounded number of them.

    Errors have the codes `item_WHAT_invalid_item_id`, where `what` the client wants to do is a verb.
    """

    def __init__(self) -> None:
        self.items: list[Item] = []

    def add(self, item: Item, *, after: str | None = None) -> str | None:
        """Insert an item at the end, or `after` an item.

        Its id `root` is the beginning.

        Returns the id of the item before it. Raises InvalidRequest.
        """
        if len(self.items) >= MAX_ITEMS:
            message = f"a conversation may have {MAX_ITEMS} items; delete some, or open another session"
            raise InvalidRequest(message, code="conversation_full")
        if any(each.id == item.id for each in self.items):
            message = f"there is an item {item.id!r} already; choose another id"
            raise InvalidRequest(message, param="item.id", code="item_create_duplicate_item_id")
        calls = {each.call_id for each in self.items if isinstance(each, CallItem)}
        if isinstance(item, CallOutputItem) and item.call_id not in calls:
            message = f"there is no function call {item.call_id!r}"
            raise InvalidRequest(message, param="item.call_id", code="invalid_tool_call_id")
        place = len(self.items)
        if after is not None:
            place = 0 if after == _FIRST else 1 + self._place(after, "create", "previous_item_id")
        self.items.insert(place, item)
        return self.items[place - 1].id if place else None

    def find(self, item_id: str, what: str, *, param: str = "item_id") -> Item:
        """Return the item of an id. Raises InvalidRequest."""
        return self.items[self._place(item_id, what, param)]

    def delete(self, item_id: str) -> None:
        """Remove an item. Raises InvalidRequest."""
        del self.items[self._place(item_id, "delete", "item_id")]

    def _place(self, item_id: str, what: str, param: str) -> int:
        place = next((place for place, item in enumerate(self.items) if item.id == item_id), None)
        if place is None:
            message = f"{param}: the conversation has no item {item_id!r}"
            raise InvalidRequest(message, param=param, code=f"item_{what}_invalid_item_id")
        return place
