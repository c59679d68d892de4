"""Help pages read from the sections, so every field needs its text."""

from dataclasses import fields

import pytest

from mlxctl.settings import (
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
def test_every_setting_has_its_text(section: type) -> None:
    assert [field.name for field in fields(section) if not describe_field(section, field.name)] == []


def test_defaults_read_as_a_person_would_write_them() -> None:
    assert describe_default(ServerSettings, "port") == "8080"
    assert describe_default(ServerSettings, "max_body_bytes") == "32MiB"
    assert describe_default(ServerSettings, "drain_seconds") == "10"
    assert describe_default(EngineSettings, "memory_limit_bytes") == ""
