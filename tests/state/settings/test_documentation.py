"""Help texts of settings."""

from dataclasses import fields

import pytest

from mlxctl.state.settings import (
    EngineSettings,
    LibrarySettings,
    ModelSettings,
    PoolSettings,
    ServerSettings,
    describe_default,
    describe_field,
)


@pytest.mark.parametrize(
    "section", [ServerSettings, EngineSettings, ModelSettings, LibrarySettings, PoolSettings]
)
def test_every_setting_has_a_help_text(section: type) -> None:
    assert [field.name for field in fields(section) if not describe_field(section, field.name)] == []


def test_defaults_are_shown_as_written_in_settings() -> None:
    assert describe_default(ServerSettings, "port") == "8080"
    assert describe_default(ServerSettings, "max_body_bytes") == "32MiB"
    assert describe_default(ServerSettings, "drain_seconds") == "10"
    assert describe_default(EngineSettings, "memory_limit_bytes") == ""
