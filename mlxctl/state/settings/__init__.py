"""Settings as frozen sections: defaults, file, environment, flags.

They are resolved once and passed down. No other module reads the environment or the file.
"""

from mlxctl.state.settings.documentation import describe_default, describe_field
from mlxctl.state.settings.editing import remove_alias, replace_settings_file, write_alias
from mlxctl.state.settings.engine import EngineSettings, SchedulerSettings, cache_policy, scheduler_policy
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
from mlxctl.state.settings.resolution import resolve, settings_file
from mlxctl.state.settings.sections import Settings, list_types, section_types
from mlxctl.state.settings.server import Endpoint, ServerSettings
from mlxctl.state.settings.vision import VisionSettings

__all__ = [
    "AdapterSettings",
    "AuditSettings",
    "Endpoint",
    "EngineSettings",
    "GuardrailSettings",
    "LibrarySettings",
    "LimitSettings",
    "ModelSettings",
    "OidcSettings",
    "OpaSettings",
    "PolicySettings",
    "PoolSettings",
    "RemoteSettings",
    "RouteSettings",
    "RoutingSettings",
    "SamplingSettings",
    "SchedulerSettings",
    "ServerSettings",
    "Settings",
    "TelemetrySettings",
    "VisionSettings",
    "cache_policy",
    "describe_default",
    "describe_field",
    "list_types",
    "remove_alias",
    "replace_settings_file",
    "resolve",
    "scheduler_policy",
    "section_types",
    "settings_file",
    "write_alias",
]
