"""/admin/keys, /admin/limits and /admin/guardrails: the policy store of the server."""

import falcon
import msgspec
from falcon.asgi import Request, Response
from msgspec import UNSET

from mlxctl.inference import InferenceService
from mlxctl.inference.preparation import PackedRequest
from mlxctl.ir.errors import Conflict, InvalidRequest
from mlxctl.ir.policy import GuardrailRules, KeyLimits, Limits
from mlxctl.protocols import PROTOCOLS
from mlxctl.server.http.answer import answer
from mlxctl.server.http.body import read_json
from mlxctl.server.policy.admin import KeyChange, NewKey, PolicyAdmin, TestedText
from mlxctl.server.policy.caller import call_of
from mlxctl.server.policy.guardrails import GuardrailTest, try_rules
from mlxctl.server.policy.request_screen import InputScreen
from mlxctl.server.policy.service import PolicyService

_MAX_BODY_BYTES = 8 << 20
_MAX_TESTED_CHARS = 64 * 1024

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
        answer(response, self._admin.keys())

    async def on_post(self, request: Request, response: Response) -> None:
        """Create a key; only this answer has its secret.

        SEC: without keys every client may administer, and one could lock out all others. Raises Conflict.
        """
        if not call_of(request).caller.name:
            raise Conflict(
                "this server has no keys, so that every client could add one; add the first with "
                "'mlxctl admin keys add NAME --scope admin --local'"
            )
        new = await read_json(request, _NEW_KEYS, limit_bytes=_MAX_BODY_BYTES)
        answer(response, self._admin.add(new))
        response.status = falcon.HTTP_201


class KeyResource:
    """/admin/keys/{id}: one API key."""

    def __init__(self, admin: PolicyAdmin) -> None:
        self._admin = admin

    async def on_get(self, request: Request, response: Response, key_id: str) -> None:  # noqa: ARG002
        """Return the key, without its secret. Raises UnknownResource."""
        answer(response, self._admin.key(key_id))

    async def on_patch(self, request: Request, response: Response, key_id: str) -> None:
        """Change the key. Raises UnknownResource, Conflict."""
        change = await read_json(request, _KEY_CHANGES, limit_bytes=_MAX_BODY_BYTES)
        answer(response, self._admin.change(key_id, change))

    async def on_delete(self, request: Request, response: Response, key_id: str) -> None:  # noqa: ARG002
        """Revoke the key. Raises UnknownResource, Conflict."""
        answer(response, self._admin.revoke(key_id))


class KeyRotationResource:
    """POST /admin/keys/{id}/rotate: replaces the secret of a key."""

    def __init__(self, admin: PolicyAdmin) -> None:
        self._admin = admin

    async def on_post(self, request: Request, response: Response, key_id: str) -> None:  # noqa: ARG002
        """Replace the secret; only this answer has it. Raises UnknownResource, Conflict."""
        answer(response, self._admin.rotate(key_id))


class LimitsResource:
    """The default limits of keys."""

    def __init__(self, admin: PolicyAdmin) -> None:
        self._admin = admin

    async def on_get(self, request: Request, response: Response) -> None:  # noqa: ARG002
        """Return the default limits of keys."""
        answer(response, self._admin.limits())

    async def on_put(self, request: Request, response: Response) -> None:
        """Replace the limits, from the next request on."""
        limits = await read_json(request, _LIMITS, limit_bytes=_MAX_BODY_BYTES)
        answer(response, self._admin.set_limits(limits))


class KeyLimitsResource:
    """The limits of one key."""

    def __init__(self, admin: PolicyAdmin) -> None:
        self._admin = admin

    async def on_get(self, request: Request, response: Response, key_id: str) -> None:  # noqa: ARG002
        """Return the limits. Raises UnknownResource."""
        answer(response, self._admin.key_limits(key_id))

    async def on_put(self, request: Request, response: Response, key_id: str) -> None:
        """Replace the limits, from the next request on. Raises UnknownResource, Conflict."""
        limits = await read_json(request, _KEY_LIMITS, limit_bytes=_MAX_BODY_BYTES)
        answer(response, self._admin.set_key_limits(key_id, limits))


class GuardrailsResource:
    """The guardrails of the server."""

    def __init__(self, admin: PolicyAdmin) -> None:
        self._admin = admin

    async def on_get(self, request: Request, response: Response) -> None:  # noqa: ARG002
        """Return the rules of the guardrails."""
        answer(response, self._admin.guardrails())

    async def on_put(self, request: Request, response: Response) -> None:
        """Replace the rules, from the next request on. Raises InvalidRequest."""
        rules = await read_json(request, _RULES, limit_bytes=_MAX_BODY_BYTES)
        answer(response, self._admin.set_guardrails(rules))


class GuardrailTestResource:
    """POST /admin/guardrails/test: screen a text or a request."""

    def __init__(self, policy: PolicyService, inference: InferenceService) -> None:
        self._policy = policy
        self._inference = inference

    async def on_post(self, request: Request, response: Response) -> None:
        """Return what the guardrails do to a text or a prompt.

        The request with the prompt is not run. Raises InvalidRequest.
        """
        tested = await read_json(request, _TESTED, limit_bytes=_MAX_BODY_BYTES)
        guardrails, preparation = self._policy.guardrails, self._inference.preparation
        if tested.text is not UNSET and tested.request is not UNSET:
            raise InvalidRequest("send either text or request", param="text")
        if tested.text is not UNSET:
            if len(tested.text) > _MAX_TESTED_CHARS:
                raise InvalidRequest(f"text may have {_MAX_TESTED_CHARS:,} characters", param="text")
            found = await preparation.call(
                try_rules, guardrails.rules, tested.text, num_bytes=len(tested.text), is_slow=True
            )
            answer(response, found)
            return
        if tested.request is UNSET:
            raise InvalidRequest("text or request is missing", param="text")
        packed: PackedRequest = await preparation.parse(
            bytes(tested.request), PROTOCOLS[tested.protocol].parse_alone
        )
        name = await self._inference.models.answering(packed.head.model, call_of(request))
        if not guardrails.applies("input", self._inference.models.own_name(name)):
            answer(response, GuardrailTest(verdict=None, matches=[]))
            return
        screen = InputScreen(guardrails.rules).test
        answer(response, await preparation.call(screen, packed, num_bytes=packed.num_bytes, is_slow=True))
