"""What a person can choose, as frozen sections resolved once: defaults, then the file, then the environment,
then flags.

Sections are passed down; nothing reads the environment or a file again, and nothing rewrites a section later.
"""

from mlxctl.settings.documentation import describe_default, describe_field
from mlxctl.settings.editing import remove_alias, write_alias
from mlxctl.settings.resolution import resolve, settings_file
from mlxctl.settings.sections import (
    EngineSettings,
    LibrarySettings,
    ModelSettings,
    PoolSettings,
    SamplingSettings,
    ServerSettings,
    Settings,
)

__all__ = [
    "EngineSettings",
    "LibrarySettings",
    "ModelSettings",
    "PoolSettings",
    "SamplingSettings",
    "ServerSettings",
    "Settings",
    "describe_default",
    "describe_field",
    "remove_alias",
    "resolve",
    "settings_file",
    "write_alias",
]
