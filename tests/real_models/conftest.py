"""Fixtures: the real model's directory."""

from pathlib import Path

import pytest

from tests.real_models import smollm2


@pytest.fixture(scope="session")
def real_model() -> Path:
    """SmolLM2-135M-Instruct in float32."""
    return smollm2()
