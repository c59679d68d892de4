"""Why a model could not be loaded, as the front is told. Pure."""

from mlxctl.engine.wire.messages import LoadFailure, ModelFailed
from mlxctl.errors import ModelError, ModelNotFoundOnDisk, NotEnoughMemory


def failed_load(name: str, error: ModelError) -> ModelFailed:
    """Return what the engine says of a model that it could not load."""
    kind: LoadFailure = "not_found" if isinstance(error, ModelNotFoundOnDisk) else "broken"
    if isinstance(error, NotEnoughMemory):
        return ModelFailed(
            name=name,
            failure="not_enough_memory",
            message=str(error),
            needed_bytes=error.needed_bytes,
            limit_bytes=error.limit_bytes,
        )
    return ModelFailed(name=name, failure=kind, message=str(error))
