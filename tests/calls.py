"""The context of a call, outside of a server."""

import asyncio
from dataclasses import replace
from typing import Any

from mlxctl.inference.call_context import CallContext, operator_call


def call_of_operator(**changes: Any) -> CallContext:
    """Return the operator's context with changed fields, outside of an event loop."""

    async def make() -> CallContext:
        return replace(operator_call(), **changes)

    return asyncio.run(make())
