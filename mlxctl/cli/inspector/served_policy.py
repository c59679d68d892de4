"""API keys, limits and guardrails of a running server."""

from typing import Any, TypeVar
from urllib.parse import quote

import msgspec
from rich.table import Table

from mlxctl.cli.inspector.rendering import plain
from mlxctl.cli.inspector.request_file import RequestFile
from mlxctl.cli.server_connection import ServerConnection
from mlxctl.inference.preparation import PackedRequest
from mlxctl.ir.policy import GuardrailRules, KeyLimits, Limits
from mlxctl.protocols import PROTOCOLS
from mlxctl.server.policy.admin import KeyChange, KeyList, KeyView, NewKey
from mlxctl.server.policy.guardrails import Guardrails, GuardrailTest
from mlxctl.server.policy.request_screen import InputScreen

Value = TypeVar("Value")


class ServedPolicy:
    """The policy store of a running server."""

    def __init__(self, server: ServerConnection) -> None:
        self._server = server

    def keys(self) -> KeyList:
        """Return the API keys of the server."""
        return self._request("GET", "/admin/keys", KeyList)

    def key(self, key_id: str) -> KeyView:
        """Return one API key of the server."""
        return self._request("GET", _key_path(key_id), KeyView)

    def add(self, new: NewKey) -> KeyView:
        """Create a key and return it with its secret."""
        return self._request("POST", "/admin/keys", KeyView, new)

    def change(self, key_id: str, change: KeyChange) -> KeyView:
        """Change fields of an API key."""
        return self._request("PATCH", _key_path(key_id), KeyView, change)

    def rotate(self, key_id: str) -> KeyView:
        """Replace the secret of a key and return it."""
        return self._request("POST", f"{_key_path(key_id)}/rotate", KeyView)

    def revoke(self, key_id: str) -> KeyView:
        """Refuse a key from now on."""
        return self._request("DELETE", _key_path(key_id), KeyView)

    def limits(self) -> Limits:
        """Return the default limits of keys."""
        return self._request("GET", "/admin/limits", Limits)

    def set_limits(self, limits: Limits) -> Limits:
        """Replace the default limits of keys."""
        return self._request("PUT", "/admin/limits", Limits, limits)

    def key_limits(self, key_id: str) -> KeyLimits:
        """Return a key's limits."""
        return self._request("GET", f"/admin/limits/{quote(key_id, safe='')}", KeyLimits)

    def set_key_limits(self, key_id: str, limits: KeyLimits) -> KeyLimits:
        """Replace a key's limits."""
        return self._request("PUT", f"/admin/limits/{quote(key_id, safe='')}", KeyLimits, limits)

    def guardrails(self) -> GuardrailRules:
        """Return the guardrails in force."""
        return self._request("GET", "/admin/guardrails", GuardrailRules)

    def set_guardrails(self, rules: GuardrailRules) -> GuardrailRules:
        """Replace the guardrails, and return them."""
        return self._request("PUT", "/admin/guardrails", GuardrailRules, rules)

    def test_guardrails(self, text: str) -> GuardrailTest:
        """Return what the guardrails would do to a text."""
        return self._request("POST", "/admin/guardrails/test", GuardrailTest, {"text": text})

    def test_request(self, request: RequestFile) -> GuardrailTest:
        """Return what the guardrails do to a request's prompt.

        The request is not run.
        """
        body = {"request": request.body, "protocol": request.protocol}
        return self._request("POST", "/admin/guardrails/test", GuardrailTest, body)

    def _request(self, method: str, path: str, kind: type[Value], body: Any = None) -> Value:
        return self._server.request(method, path, kind, None if body is None else msgspec.to_builtins(body))


def screen_request(rules: GuardrailRules, request: RequestFile) -> GuardrailTest:
    """Return what this machine's guardrails do to a request's prompt."""
    parsed = PROTOCOLS[request.protocol].parse_alone(msgspec.json.encode(request.body))
    packed = PackedRequest.of(parsed)
    if not Guardrails(rules).applies("input", packed.head.model):
        return GuardrailTest(verdict=None, matches=[])
    return InputScreen(rules).test(packed)


def keys_table(keys: KeyList) -> Table:
    """Return a table with one line for each key."""
    headings = ("id", "name", "scopes", "models", "state")
    table = Table(*headings, box=None, pad_edge=False, header_style="bold")
    for key in keys.keys:
        state = "revoked" if key.revoked_at is not None else "valid"
        source = "settings" if key.source == "settings" else state
        table.add_row(
            plain(key.id),
            plain(key.name),
            plain(" ".join(key.scopes)),
            plain(" ".join(key.models) or "all"),
            source,
        )
    return table


def _key_path(key_id: str) -> str:
    return f"/admin/keys/{quote(key_id, safe='')}"
