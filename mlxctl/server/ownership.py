"""Whose a request is: its place in the queue, and which computed prefixes it may share."""

from dataclasses import replace

from falcon.asgi import Request

from mlxctl.ir import GenerationRequest
from mlxctl.policy import cache_namespace


def owned(asked: GenerationRequest, request: Request) -> GenerationRequest:
    """Return what the caller of `request` asked for, as that caller's."""
    namespace = cache_namespace(request.context.cache_scope, asked.cache.salt)
    return replace(asked, fairness_key=request.context.caller, cache=replace(asked.cache, namespace=namespace))
