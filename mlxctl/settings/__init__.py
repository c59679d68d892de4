"""What a person can choose, as frozen sections resolved once: defaults, then the file, then the environment, then flags.

Sections are passed down; nothing reads the environment or a file again, and nothing rewrites a section later.
"""

from mlxctl.settings.documentation import describe_default, describe_field
from mlxctl.settings.resolution import resolve
from mlxctl.settings.sections import EngineSettings, ModelSettings, ServerSettings, Settings

__all__ = [
    "EngineSettings",
    "ModelSettings",
    "ServerSettings",
    "Settings",
    "describe_default",
    "describe_field",
    "resolve",
]
