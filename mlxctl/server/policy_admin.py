"""/admin/keys, /admin/limits and /admin/guardrails: the policy store of the server."""

from typing import Any

import falcon
import msgspec
from falcon.asgi import Request, Response

from mlxctl.errors import Conflict
from mlxctl.inference.preparation import PreparationPool
from mlxctl.ir.policy import GuardrailRules, KeyLimits, Limits
from mlxctl.policy.admin import KeyChange, NewKey, PolicyAdmin, TestedText
from mlxctl.policy.guardrails import try_rules
from mlxctl.server.body import read_json

_MAX_BODY_BYTES = 8 << 20
_MAX_TESTED_BYTES = 64 * 1024

_NEW_KEYS = msgspec.json.Decoder(NewKey)
_KEY_CHANGES = msgspec.json.Decoder(KeyChange)
_LIMITS = msgspec.json.Decoder(Limits)
_RULES = msgspec.json.Decoder(GuardrailRules)
_TESTED = msgspec.json.Decoder(TestedText)
_KEY_LIMITS = msgspec.json.Decoder(KeyLimits)


class KeysResource:
    """/admin/keys: all API keys."""

    def __init__(self, admin: PolicyAdmin) -> None:
        self._admin = admin

    async def on_get(self, request: Request, response: Response) -> None:  # noqa: ARG002
        """List the keys, without secrets."""
        _answer(response, self._admin.keys())

    on_head = on_get

    async def on_post(self, request: Request, response: Response) -> None:
        """Create a key; only this answer has its secret.

        SEC: without keys every client may administer, and one could lock out all others. Raises Conflict.
        """
        if not request.context.identity.name:
            raise Conflict(
                "this server has no keys, so that every client could add one; add the first with "
                "'mlxctl admin keys add NAME --scope admin --local'"
            )
        new = await read_json(request, _NEW_KEYS, limit_bytes=_MAX_BODY_BYTES)
        _answer(response, self._admin.add(new))
        response.status = falcon.HTTP_201


class KeyResource:
    """/admin/keys/{id}: one API key."""

    def __init__(self, admin: PolicyAdmin) -> None:
        self._admin = admin

    async def on_get(self, request: Request, response: Response, key_id: str) -> None:  # noqa: ARG002
        """Return the key, without its secret. Raises UnknownResource."""
        _answer(response, self._admin.key(key_id))

    on_head = on_get

    async def on_patch(self, request: Request, response: Response, key_id: str) -> None:
        """Change the key. Raises UnknownResource, Conflict."""
        change = await read_json(request, _KEY_CHANGES, limit_bytes=_MAX_BODY_BYTES)
        _answer(response, self._admin.change(key_id, change))

    async def on_delete(self, request: Request, response: Response, key_id: str) -> None:  # noqa: ARG002
        """Revoke the key. Raises UnknownResource, Conflict."""
        _answer(response, self._admin.revoke(key_id))


class KeyRotationResource:
    """POST /admin/keys/{id}/rotate: replaces the secret of a key."""

    def __init__(self, admin: PolicyAdmin) -> None:
        self._admin = admin

    async def on_post(self, request: Request, response: Response, key_id: str) -> None:  # noqa: ARG002
        """Replace the secret; only this answer has it. Raises UnknownResource, Conflict."""
        _answer(response, self._admin.rotate(key_id))


class LimitsResource:
    """The limits of keys without own ones."""

    def __init__(self, admin: PolicyAdmin) -> None:
        self._admin = admin

    async def on_get(self, request: Request, response: Response) -> None:  # noqa: ARG002
        """Return the limits of keys without own ones."""
        _answer(response, self._admin.limits())

    on_head = on_get

    async def on_put(self, request: Request, response: Response) -> None:
        """Replace the limits, from the next request on."""
        limits = await read_json(request, _LIMITS, limit_bytes=_MAX_BODY_BYTES)
        _answer(response, self._admin.set_limits(limits))


class KeyLimitsResource:
    """The own limits of one key."""

    def __init__(self, admin: PolicyAdmin) -> None:
        self._admin = admin

    async def on_get(self, request: Request, response: Response, key_id: str) -> None:  # noqa: ARG002
        """Return the limits. Raises UnknownResource."""
        _answer(response, self._admin.key_limits(key_id))

    on_head = on_get

    async def on_put(self, request: Request, response: Response, key_id: str) -> None:
        """Replace the limits, from the next request on. Raises UnknownResource, Conflict."""
        limits = await read_json(request, _KEY_LIMITS, limit_bytes=_MAX_BODY_BYTES)
        _answer(response, self._admin.set_key_limits(key_id, limits))


class GuardrailsResource:
    """The guardrails of the server."""

    def __init__(self, admin: PolicyAdmin) -> None:
        self._admin = admin

    async def on_get(self, request: Request, response: Response) -> None:  # noqa: ARG002
        """Return the rules of the guardrails."""
        _answer(response, self._admin.guardrails())

    on_head = on_get

    async def on_put(self, request: Request, response: Response) -> None:
        """Replace the rules, from the next request on. Raises InvalidRequest."""
        rules = await read_json(request, _RULES, limit_bytes=_MAX_BODY_BYTES)
        _answer(response, self._admin.set_guardrails(rules))


class GuardrailTestResource:
    """POST /admin/guardrails/test: screen a text."""

    def __init__(self, admin: PolicyAdmin, preparation: PreparationPool) -> None:
        self._admin = admin
        self._preparation = preparation

    async def on_post(self, request: Request, response: Response) -> None:
        """Return what the guardrails do to a text."""
        tested = await read_json(request, _TESTED, limit_bytes=_MAX_TESTED_BYTES)
        rules, text = self._admin.guardrails(), tested.text
        _answer(
            response,
            await self._preparation.call(try_rules, rules, text, num_bytes=len(text), is_slow=True),
        )


def _answer(response: Response, value: Any) -> None:
    response.data = msgspec.json.encode(value)
    response.content_type = falcon.MEDIA_JSON
