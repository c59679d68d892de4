"""Routes of LoRA adapters."""

from mlxctl.server.http.route import Operation, Query, Route
from mlxctl.server.resources.models.adapters import (
    Adapter,
    AdapterList,
    AdapterMount,
    AdapterResource,
    AdaptersResource,
    LoadLoraResource,
    LoraMount,
    LoraUnmount,
    UnloadLoraResource,
)

_ERRORS = (404, 409, 500, 503)
_MOUNT_ERRORS = (*_ERRORS, 504)

ROUTES = (
    Route(
        path="/v1/adapters",
        resource=lambda context: AdaptersResource(context.services.inference.models),
        access="adapters:write",
        operations=(
            Operation(method="get", summary="List the mounted LoRA adapters", answer=AdapterList),
            Operation(
                method="post",
                summary="Mount a LoRA adapter",
                body=AdapterMount,
                answer=Adapter,
                errors=_MOUNT_ERRORS,
            ),
        ),
    ),
    Route(
        path="/v1/adapters/{name}",
        resource=lambda context: AdapterResource(context.services.inference.models),
        access="adapters:write",
        operations=(
            Operation(
                method="delete",
                summary="Unmount a LoRA adapter",
                answer=Adapter,
                query=(Query(name="model", schema={"type": "string"}),),
                errors=_ERRORS,
            ),
        ),
    ),
    Route(
        path="/v1/load_lora_adapter",
        resource=lambda context: LoadLoraResource(context.services.inference.models),
        access="adapters:write",
        operations=(
            Operation(
                method="post",
                summary="Mount a LoRA adapter, as in vLLM",
                body=LoraMount,
                answer=str,
                errors=_MOUNT_ERRORS,
            ),
        ),
    ),
    Route(
        path="/v1/unload_lora_adapter",
        resource=lambda context: UnloadLoraResource(context.services.inference.models),
        access="adapters:write",
        operations=(
            Operation(
                method="post",
                summary="Unmount a LoRA adapter, as in vLLM",
                body=LoraUnmount,
                answer=str,
                errors=_ERRORS,
            ),
        ),
    ),
)
