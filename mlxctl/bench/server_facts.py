"""What a measured server runs: the model, mlxctl's version, and the engine.

mlxctl says it in its model list and in GET /health; of other servers less is known, or nothing.
"""

from pathlib import PurePath

import msgspec

from mlxctl.bench.result import EngineFacts, MeasuredServer
from mlxctl.bench.target import BenchTarget
from mlxctl.inference.remote import RemoteInference
from mlxctl.ir.errors import MlxctlError


class _Health(msgspec.Struct):
    version: str | None = None
    engine: EngineFacts | None = None


async def describe_server(target: BenchTarget) -> MeasuredServer:
    """Return the identity of the server. Never raises for what it answers."""
    health, listed = await _read_health(target), target.listed
    return MeasuredServer(
        label=target.label,
        name=target.name,
        url=target.endpoint.base_url,
        # mlx_lm.server names a model by its path, which says too much about a machine.
        model=PurePath(target.model).name if target.model.startswith("/") else target.model,
        context_length=target.context_length,
        num_parameters=listed.num_parameters if listed else None,
        number_format=listed.number_format if listed else None,
        # Other servers may have a version, too.
        version=health.version if health.engine else None,
        engine=health.engine or EngineFacts(),
    )


async def _read_health(target: BenchTarget) -> _Health:
    remote = RemoteInference(target.endpoint.base_url, api_key=target.endpoint.api_key)
    try:
        return await remote.get("/health", _Health)
    except MlxctlError:
        return _Health()
    finally:
        await remote.close()
