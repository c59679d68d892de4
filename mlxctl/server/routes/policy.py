"""Routes of the policy store: API keys, limits, guardrails."""

from collections.abc import Callable

from mlxctl.ir.policy import GuardrailRules, KeyLimits, Limits
from mlxctl.server.http.route import Operation, Route, RouteContext
from mlxctl.server.policy.admin import KeyChange, KeyList, KeyView, NewKey, PolicyAdmin, TestedText
from mlxctl.server.policy.guardrails import GuardrailTest
from mlxctl.server.resources.operation.policy_admin import (
    GuardrailsResource,
    GuardrailTestResource,
    KeyLimitsResource,
    KeyResource,
    KeyRotationResource,
    KeysResource,
    LimitsResource,
)

_ERRORS = (404, 409, 503)


def _route(path: str, resource: Callable[[PolicyAdmin], object], *operations: Operation) -> Route:
    def create(context: RouteContext) -> object:
        return resource(context.services.policy.admin)

    return Route(path=path, resource=create, access="admin", covers_all_callers=True, operations=operations)


ROUTES = (
    _route(
        "/admin/keys",
        KeysResource,
        Operation(method="get", summary="List API keys, without secrets", answer=KeyList, errors=(503,)),
        Operation(
            method="post",
            summary="Create an API key; only this answer has its secret",
            body=NewKey,
            answer=KeyView,
            status=201,
            errors=(409, 503),
        ),
    ),
    _route(
        "/admin/keys/{key_id}",
        KeyResource,
        Operation(method="get", summary="Get an API key, without its secret", answer=KeyView, errors=_ERRORS),
        Operation(
            method="patch", summary="Change an API key", body=KeyChange, answer=KeyView, errors=_ERRORS
        ),
        Operation(
            method="delete",
            summary="Revoke an API key; its open requests end",
            answer=KeyView,
            errors=_ERRORS,
        ),
    ),
    _route(
        "/admin/keys/{key_id}/rotate",
        KeyRotationResource,
        Operation(
            method="post",
            summary="Replace the secret of an API key; only this answer has it",
            answer=KeyView,
            errors=_ERRORS,
        ),
    ),
    _route(
        "/admin/limits",
        LimitsResource,
        Operation(method="get", summary="Get the default limits of keys", answer=Limits),
        Operation(
            method="put",
            summary="Replace the default limits of keys",
            body=Limits,
            answer=Limits,
            errors=(503,),
        ),
    ),
    _route(
        "/admin/limits/{key_id}",
        KeyLimitsResource,
        Operation(method="get", summary="Get the limits of a key", answer=KeyLimits, errors=_ERRORS),
        Operation(
            method="put",
            summary="Replace the limits of a key",
            body=KeyLimits,
            answer=KeyLimits,
            errors=_ERRORS,
        ),
    ),
    _route(
        "/admin/guardrails",
        GuardrailsResource,
        Operation(method="get", summary="Get the guardrails", answer=GuardrailRules),
        Operation(
            method="put",
            summary="Replace the guardrails",
            body=GuardrailRules,
            answer=GuardrailRules,
            errors=(503,),
        ),
    ),
    Route(
        path="/admin/guardrails/test",
        resource=lambda context: GuardrailTestResource(context.services.policy, context.services.inference),
        access="admin",
        covers_all_callers=True,
        operations=(
            Operation(
                method="post",
                summary="Try the guardrails with a text or a request",
                body=TestedText,
                answer=GuardrailTest,
                errors=(503,),
            ),
        ),
    ),
)
