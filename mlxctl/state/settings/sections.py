"""The settings file: all its sections.

Each field has its default, bounds and help text beside it. A field whose name ends in `_bytes` may be a
number or a size (`"512MiB"`, `"8GB"`). A secret field never appears in a repr, a log line or an error
message.
"""

from dataclasses import dataclass, field
from functools import cache
from typing import Any, get_args, get_origin, get_type_hints

from mlxctl.state.settings.engine import EngineSettings, SchedulerSettings
from mlxctl.state.settings.models import (
    AdapterSettings,
    LibrarySettings,
    ModelSettings,
    PoolSettings,
    SamplingSettings,
)
from mlxctl.state.settings.policy import (
    AuditSettings,
    GuardrailSettings,
    LimitSettings,
    OidcSettings,
    OpaSettings,
    PolicySettings,
    TelemetrySettings,
)
from mlxctl.state.settings.remotes import RemoteSettings, RouteSettings, RoutingSettings
from mlxctl.state.settings.server import ServerSettings
from mlxctl.state.settings.vision import VisionSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """All sections of the settings file.

    A tuple is a list of tables.
    """

    server: ServerSettings = field(default_factory=ServerSettings)
    engine: EngineSettings = field(default_factory=EngineSettings)
    model: ModelSettings = field(default_factory=ModelSettings)
    library: LibrarySettings = field(default_factory=LibrarySettings)
    pool: PoolSettings = field(default_factory=PoolSettings)
    sampling: SamplingSettings = field(default_factory=SamplingSettings)
    vision: VisionSettings = field(default_factory=VisionSettings)
    adapters: AdapterSettings = field(default_factory=AdapterSettings)
    audit: AuditSettings = field(default_factory=AuditSettings)
    limits: LimitSettings = field(default_factory=LimitSettings)
    policy: PolicySettings = field(default_factory=PolicySettings)
    opa: OpaSettings = field(default_factory=OpaSettings)
    oidc: OidcSettings = field(default_factory=OidcSettings)
    scheduler: SchedulerSettings = field(default_factory=SchedulerSettings)
    guardrails: GuardrailSettings = field(default_factory=GuardrailSettings)
    telemetry: TelemetrySettings = field(default_factory=TelemetrySettings)
    routing: RoutingSettings = field(default_factory=RoutingSettings)
    remotes: tuple[RemoteSettings, ...] = ()
    routes: tuple[RouteSettings, ...] = ()


@cache
def section_types() -> dict[str, Any]:
    """Return the class of each section by name."""
    return {name: kind for name, kind in get_type_hints(Settings).items() if get_origin(kind) is not tuple}


@cache
def list_types() -> dict[str, Any]:
    """Return the class of the tables of each list by name."""
    hints = get_type_hints(Settings).items()
    return {name: get_args(kind)[0] for name, kind in hints if get_origin(kind) is tuple}
