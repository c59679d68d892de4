"""Options of text models by settings, for all models and by name."""

from pathlib import Path

import pytest

from mlxctl.ir import KVFormat
from mlxctl.ir.errors import BrokenModel
from mlxctl.library.text_options import text_options
from mlxctl.state.settings import resolve


def test_kv_bits_apply_to_all_models_except_named_ones(tmp_path: Path) -> None:
    path = tmp_path / "mlxctl.toml"
    path.write_text(
        '[model]\nkv_bits = 8\nkv_group_size = 32\n[pool.kv_bits_by_name]\nsmall = "full"\nlarge = "4"\n'
    )
    settings = resolve(config_file=path, environment={})
    formats = [text_options(settings, name, tmp_path).kv_format for name in ("small", "large", "other")]
    assert formats == [None, KVFormat(bits=4, group_size=32), KVFormat(bits=8, group_size=32)]
    plain = resolve(config_file=path, environment={}, flags={"model": {"kv_bits": "full"}})
    assert text_options(plain, "other", tmp_path).kv_format is None


def test_formats_by_layer_are_those_of_the_models_file(tmp_path: Path) -> None:
    settings = resolve(environment={}, flags={"model": {"kv_bits": "config"}})
    assert text_options(settings, "small", tmp_path).kv_format is None
    four, full = '{"layer_idx": 1, "bits": 4, "group_size": 32}', '{"layer_idx": 0, "bits": 16}'
    (tmp_path / "kv_config.json").write_text(f'[{{"layer_idx": 3, "bits": 8}}, {four}, {full}]')
    assert text_options(settings, "small", tmp_path).kv_format == (
        (1, KVFormat(bits=4, group_size=32)),
        (3, KVFormat(bits=8, group_size=64)),
    )


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ("{}", "Expected `array`"),
        ('[{"layer_idx": 0, "bits": 5}]', "Invalid enum value 5"),
        ('[{"bits": 8}]', "missing required field `layer_idx`"),
        ('[{"layer_idx": -1, "bits": 8}]', ">= 0"),
        ("[", "truncated"),
    ],
)
def test_invalid_formats_by_layer_are_named(tmp_path: Path, content: str, reason: str) -> None:
    settings = resolve(environment={}, flags={"model": {"kv_bits": "config"}})
    (tmp_path / "kv_config.json").write_text(content)
    with pytest.raises(BrokenModel, match=f"kv_config.json is not a list of .*{reason}"):
        text_options(settings, "small", tmp_path)
