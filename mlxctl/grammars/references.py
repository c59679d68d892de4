"""References of a JSON schema as percent-encoded JSON pointers (RFC 6901).

Generators for C#, Java and Python write names such as `List<int>` or `Page[Item]` as they are. These are no
URI references, so llguidance refuses them, while other validators look up the name.
"""

import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote, unquote, urljoin

from mlxctl.grammars.schema_parts import Keys, all_parts, changed

# RFC 3986: these characters may stand in a fragment.
_SAFE = "!$&'()*+,;=:@-._~"
_IDS = ("$id", "id", "$anchor")
_MAX_STEPS = 64
_KNOWN_DRAFTS = "json-schema.org/"


def with_pointers(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return the schema with pointers from the root as references.

    References to other documents stay. Ids are then needed no more and left out, as they need not be URI
    references.
    """
    resources = _Resources(schema)

    def without_ids(node: dict[str, Any], keys: Keys) -> dict[str, Any]:
        if isinstance(reference := node.get("$ref"), str):
            node["$ref"] = resources.pointer(reference, keys)
        for key in _IDS:
            if isinstance(node.get(key), str):
                del node[key]
        if _KNOWN_DRAFTS not in str(node.get("$schema", _KNOWN_DRAFTS)):
            del node["$schema"]
        return node

    return changed(schema, without_ids)


def target(root: Any, reference: str) -> Any:
    """Return the part that a pointer names, None if there is none."""
    found = root
    keys = _keys(root, reference.removeprefix("#"))
    for key in keys or ():
        found = found[key]
    return None if keys is None else found


class _Resources:
    """The schemas in a document that references may start from."""

    def __init__(self, root: Mapping[str, Any]) -> None:
        self._root = root
        # Absolute ids, and the anchors in them, with the keys to their schemas.
        self._ids: dict[str, Keys] = {}
        self._bases: dict[Keys, str] = {}
        for keys, part in all_parts(root):
            base = self._base(keys)[1]
            name = next((part[key] for key in _IDS[:2] if isinstance(part.get(key), str)), None)
            if name is not None:
                self._ids.setdefault(base := _joined(base, name), keys)
                if not name.startswith("#"):
                    self._bases[keys] = base
            if isinstance(anchor := part.get("$anchor"), str):
                self._ids.setdefault(_joined(base, f"#{anchor}"), keys)

    def pointer(self, reference: str, keys: Keys) -> str:
        """Return the pointer for a reference in the part at `keys`.

        The reference itself if it names no part.
        """
        start, base = self._base(keys)
        name, mark, fragment = reference.partition("#")
        if name:
            named = self._ids.get(_joined(base, name))
            starts = [] if named is None else [named]
        else:
            # Some generators write pointers from the root inside of schemas with ids.
            starts = [start, ()]
        for start in starts:
            if (found := _keys(_at(self._root, start), fragment)) is not None:
                return _text(start + found)
        if (found := self._ids.get(_joined(base, reference))) is not None:
            return _text(found)
        return quote(reference, f"{_SAFE}/%#?", errors="replace") if mark and not name else reference

    def _base(self, keys: Keys) -> tuple[Keys, str]:
        """Return keys and id of the innermost schema with an id."""
        for num in range(len(keys), -1, -1):
            if (base := self._bases.get(keys[:num])) is not None:
                return keys[:num], base
        return (), ""


def _joined(base: str, name: str) -> str:
    try:
        return urljoin(base, name).removesuffix("#")
    except ValueError:
        return name


def _at(node: Any, keys: Keys) -> Any:
    for key in keys:
        node = node[key]
    return node


def _keys(node: Any, pointer: str) -> Keys | None:
    """Return the keys to a pointer's target; None if there is none.

    The text is taken as it is, or else decoded.
    """
    if not pointer:
        return ()
    if not pointer.startswith("/") or pointer.count("/") > _MAX_STEPS:
        return None
    for text in dict.fromkeys((pointer, unquote(pointer))):
        if (found := _walk(node, text[1:].split("/"))) is not None:
            return found
    return None


def _walk(node: Any, steps: list[str]) -> Keys | None:
    """Return the keys along a pointer's steps.

    A key may have a slash as it is.
    """
    if not steps:
        return () if isinstance(node, dict | bool) else None
    if isinstance(node, list):
        index = int(steps[0]) if re.fullmatch("[0-9]{1,6}", steps[0]) else len(node)
        rest = _walk(node[index], steps[1:]) if index < len(node) else None
        return None if rest is None else (index, *rest)
    if not isinstance(node, dict):
        return None
    for num in range(1, len(steps) + 1):
        name = "/".join(steps[:num])
        for key in dict.fromkeys((name, name.replace("~1", "/").replace("~0", "~"))):
            if key in node and (rest := _walk(node[key], steps[num:])) is not None:
                return (key, *rest)
    return None


def _text(keys: Keys) -> str:
    names = [str(key).replace("~", "~0").replace("/", "~1") for key in keys]
    return "#" + "".join("/" + quote(name, _SAFE, errors="replace") for name in names)
