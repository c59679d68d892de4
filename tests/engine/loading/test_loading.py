"""Importing MLX and loading models: limits, BLAS, one-line errors."""

import ctypes
import shutil
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import mlx.core as mx
import pytest

from mlxctl.engine.generation.loading import load_text_model
from mlxctl.engine.loaded_weights import LoadedWeights
from mlxctl.engine.loading.loader import load_in_pieces
from mlxctl.ir import ModelSpec
from mlxctl.ir.errors import BrokenModel, ModelNotFoundOnDisk, NotEnoughMemory
from tests import tiny_models
from tests.engine.harness import result_of

PLENTY = 1 << 40


def run_python(program: str) -> str:
    result = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60
    )
    return result.stdout.strip()


def load(path: Path, *, weights_bytes: int = 1, available_bytes: int = PLENTY) -> LoadedWeights:
    spec = ModelSpec(name="m", path=path, weights_bytes=weights_bytes)
    return result_of(
        load_in_pieces(spec, load_text_model, available_bytes=available_bytes, limit_bytes=available_bytes)
    )


def test_importing_mlx_lm_leaves_the_file_limit_unchanged() -> None:
    program = (
        "import resource; resource.setrlimit(resource.RLIMIT_NOFILE, (1000, 2000));"
        "from mlxctl.engine.loading.loader import import_mlx_lm; import_mlx_lm();"
        "print(resource.getrlimit(resource.RLIMIT_NOFILE))"
    )
    assert run_python(program) == "(1000, 2000)"


IMPORT_ALONE = (
    "import sys; from mlxctl.engine.loading.transformers_placeholder import import_mlx_lm_alone;"
    "utils = import_mlx_lm_alone();"
)


def test_engine_imports_mlx_lm_without_transformers() -> None:
    after = "print(utils.load_model.__module__, 'transformers' in sys.modules, 'torch' in sys.modules);"
    later = "import transformers; print(transformers.__version__)"
    assert run_python(IMPORT_ALONE + after + later).splitlines() == [
        "mlx_lm.utils False False",
        metadata.version("transformers"),
    ]


def test_mlx_lm_that_uses_transformers_on_import_gets_it(tmp_path: Path) -> None:
    for name, source in {
        "transformers": "LIMITS = {'context': 8}",
        "mlx_lm": "from transformers import LIMITS; CONTEXT = LIMITS['context']",
    }.items():
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text(source)
    (tmp_path / "mlx_lm" / "utils.py").write_text("from mlx_lm import CONTEXT")

    found = f"import sys; sys.path.insert(0, {str(tmp_path)!r});"
    assert run_python(found + IMPORT_ALONE + "print(utils.CONTEXT)") == "8"


@pytest.mark.parametrize("family", ["qwen3", "gemma3", "qwen3_next"])
def test_costs_are_measured_on_the_loaded_model(family: str) -> None:
    weights = load(tiny_models.model(family))

    kinds = {"qwen3": "plain", "gemma3": "sliding", "qwen3_next": "hybrid"}
    assert (weights.vocabulary_size, weights.cache_kind, weights.can_batch) == (512, kinds[family], True)
    assert weights.kv_bytes_per_token > 0
    assert weights.weights_bytes > 500_000


def test_installed_openblas_is_preferred() -> None:
    try:
        ctypes.CDLL("libopenblas.so.0")
        expected = "openblas"
    except OSError:
        expected = "bundled" if sys.platform == "linux" else "native"
    assert (
        run_python("from mlxctl.engine.backend import prefer_openblas; print(prefer_openblas())") == expected
    )


def test_directory_without_weights_raises_not_found(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text('{"model_type": "qwen3"}')
    with pytest.raises(ModelNotFoundOnDisk):
        load(tmp_path)


@pytest.mark.parametrize(
    "config", ['{"model_type": "no_such_architecture"}', "{}", "not json", '{"model_type": 5}']
)
def test_invalid_config_raises_a_one_line_error(tmp_path: Path, config: str) -> None:
    weights = next(tiny_models.model("qwen3").glob("*.safetensors"))
    (tmp_path / weights.name).write_bytes(weights.read_bytes())
    (tmp_path / "config.json").write_text(config)

    with pytest.raises(BrokenModel) as failure:
        load(tmp_path)

    assert "\n" not in str(failure.value)


def test_model_without_a_finite_output_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "m"
    shutil.copytree(tiny_models.model("qwen3"), path)
    weights = dict(mx.load(str(path / "model.safetensors")))
    weights["model.norm.weight"] = mx.full(weights["model.norm.weight"].shape, float("nan"))
    mx.save_safetensors(str(path / "model.safetensors"), weights, {"format": "mlx"})

    with pytest.raises(BrokenModel, match="no finite number; its weights are damaged"):
        load(path)


def test_weights_larger_than_memory_are_not_read() -> None:
    with pytest.raises(NotEnoughMemory):
        load(tiny_models.model("qwen3"), weights_bytes=2000, available_bytes=1000)
