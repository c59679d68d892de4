"""Validation of answers against /openapi.json, without undescribed fields."""

import json
from copy import deepcopy
from typing import Any

import jsonschema

from mlxctl.server.http.openapi import build_document
from mlxctl.server.routes import all_routes

DOCUMENT: dict[str, Any] = build_document(all_routes())


def _closed(document: dict[str, Any]) -> dict[str, Any]:
    """Return the description's types, closed to fields they do not name."""
    types = deepcopy(document["components"]["schemas"])
    for kind in types.values():
        if "properties" in kind:
            kind.setdefault("additionalProperties", False)
    return types


_TYPES = _closed(DOCUMENT)


def check_answer(value: Any, method: str, path: str, status: int = 200) -> None:
    """Raise jsonschema.ValidationError when an answer of a route is not as described."""
    content = DOCUMENT["paths"][path][method]["responses"][str(status)]["content"]
    _check(value, content["application/json"]["schema"])


def check_stream(wire: str, path: str) -> None:
    """Raise jsonschema.ValidationError when a stream event is not as described."""
    schema = DOCUMENT["paths"][path]["post"]["responses"]["200"]["content"]["text/event-stream"]["schema"]
    events = [event for text in wire.split("\n\n") if (event := _event(text))]
    assert events
    event_schema = schema["contentSchema"]["items"]
    for event in events:
        _check(event, event_schema)
        _check(json.loads(event["data"]), event_schema["properties"]["data"]["contentSchema"])


def _event(text: str) -> dict[str, str]:
    """Return the fields of one server-sent event.

    Nothing for comments and the end mark.
    """
    fields = dict(line.split(": ", 1) for line in text.split("\n") if line and not line.startswith(":"))
    return {} if fields.get("data") == "[DONE]" else fields


def _check(value: Any, schema: dict[str, Any]) -> None:
    jsonschema.validate(value, {**schema, "components": {"schemas": _TYPES}})
