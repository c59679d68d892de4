"""A small Qwen3 adapter."""

import pytest

from mlxctl.formats.adapters import ModelAdapter

from .directories import adapter_of, write_model


@pytest.fixture(scope="session")
def qwen(tmp_path_factory: pytest.TempPathFactory) -> ModelAdapter:
    return adapter_of(write_model(tmp_path_factory.mktemp("qwen")))
