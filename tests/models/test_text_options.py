"""Options of text models by settings, for all models and by name."""

from pathlib import Path

from mlxctl.ir import KVFormat
from mlxctl.models.text_options import text_options
from mlxctl.settings import resolve


def test_kv_bits_apply_to_all_models_except_named_ones(tmp_path: Path) -> None:
    path = tmp_path / "mlxctl.toml"
    path.write_text(
        '[model]\nkv_bits = 8\nkv_group_size = 32\n[pool.kv_bits_by_name]\nsmall = "full"\nlarge = "4"\n'
    )
    settings = resolve(config_file=path, environment={})
    formats = [text_options(settings, name).kv_format for name in ("small", "large", "other")]
    assert formats == [None, KVFormat(bits=4, group_size=32), KVFormat(bits=8, group_size=32)]
    plain = resolve(config_file=path, environment={}, flags={"model": {"kv_bits": "full"}})
    assert text_options(plain, "other").kv_format is None
