"""References of a JSON schema as percent-encoded JSON pointers (RFC 6901).

Generators for C#, Java and Python write names such as `List<int>` or `Page[Item]` as they are. These are no
URI references, so llguidance refuses them, while other validators look up the name.
"""

from collections.abc import Mapping
from typing import Any
from urllib.parse import quote, urljoin

from mlxctl.formats.grammars.schema_parts import all_parts, changed
from mlxctl.ir.json_schemas import SchemaKeys, pointer_keys

# RFC 3986: these characters may stand in a fragment.
_SAFE = "!$&'()*+,;=:@-._~"
_IDS = ("$id", "id", "$anchor")
_KNOWN_DRAFTS = "json-schema.org/"


def with_pointers(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return the schema with pointers from the root as references.

    References to other documents stay. Ids are then needed no more and left out, as they need not be URI
    references.
    """
    resources = _Resources(schema)

    def without_ids(node: dict[str, Any], keys: SchemaKeys) -> dict[str, Any]:
        if isinstance(reference := node.get("$ref"), str):
            node["$ref"] = resources.pointer(reference, keys)
        for key in _IDS:
            if isinstance(node.get(key), str):
                del node[key]
        if _KNOWN_DRAFTS not in str(node.get("$schema", _KNOWN_DRAFTS)):
            del node["$schema"]
        return node

    return changed(schema, without_ids)


class _Resources:
    """The schemas in a document that references may start from."""

    def __init__(self, root: Mapping[str, Any]) -> None:
        self._root = root
        # Absolute ids, and the anchors in them, with the keys to their schemas.
        self._ids: dict[str, SchemaKeys] = {}
        self._bases: dict[SchemaKeys, str] = {}
        for keys, part in all_parts(root):
            base = self._base(keys)[1]
            name = next((part[key] for key in _IDS[:2] if isinstance(part.get(key), str)), None)
            if name is not None:
                self._ids.setdefault(base := _joined(base, name), keys)
                if not name.startswith("#"):
                    self._bases[keys] = base
            if isinstance(anchor := part.get("$anchor"), str):
                self._ids.setdefault(_joined(base, f"#{anchor}"), keys)

    def pointer(self, reference: str, keys: SchemaKeys) -> str:
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
            if (found := pointer_keys(_at(self._root, start), fragment)) is not None:
                return _text(start + found)
        if (found := self._ids.get(_joined(base, reference))) is not None:
            return _text(found)
        return quote(reference, f"{_SAFE}/%#?", errors="replace") if mark and not name else reference

    def _base(self, keys: SchemaKeys) -> tuple[SchemaKeys, str]:
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


def _at(node: Any, keys: SchemaKeys) -> Any:
    for key in keys:
        node = node[key]
    return node


def _text(keys: SchemaKeys) -> str:
    names = [str(key).replace("~", "~0").replace("/", "~1") for key in keys]
    return "#" + "".join("/" + quote(name, _SAFE, errors="replace") for name in names)
