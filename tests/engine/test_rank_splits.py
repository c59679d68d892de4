"""How ranks share a model, and why they cannot."""

from pathlib import Path
from typing import Any

import pytest

from mlxctl.engine.ranks.requirements import CannotSplitError, choose_split
from mlxctl.ir import EmbeddingRecipe, KVFormat, ModelSpec, TextGenerationTask
from mlxctl.ir.model_spec import EmbeddingTask, TextModelOptions

LLAMA = {
    "model_type": "llama",
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "intermediate_size": 512,
    "num_hidden_layers": 3,
}
DEEPSEEK = LLAMA | {"model_type": "deepseek_v3"}


def spec(**fields: Any) -> ModelSpec:
    return ModelSpec(name="m", path=Path("m"), weights_bytes=1, **fields)


def test_layers_are_split_where_the_model_allows_it_else_shared_out() -> None:
    assert choose_split(spec(), LLAMA, 4, "auto") == "tensor"
    assert choose_split(spec(), DEEPSEEK, 3, "auto") == "pipeline"
    assert choose_split(spec(), DEEPSEEK, 2, "pipeline") == "pipeline"
    # All heads of latent attention share their keys.
    assert choose_split(spec(), DEEPSEEK | {"num_key_value_heads": 1}, 2, "auto") == "tensor"


@pytest.mark.parametrize(
    ("config", "num_ranks", "parallel", "problem"),
    [
        (LLAMA, 3, "auto", "its num_attention_heads 32 cannot be divided by 3 ranks; possible: 2, 4, 8"),
        (LLAMA, 2, "pipeline", "its architecture llama is not proven on several ranks (pipeline)"),
        (LLAMA | {"model_type": "gemma3"}, 2, "auto", "its architecture gemma3 is not proven"),
        (DEEPSEEK, 4, "pipeline", "it has 3 layers for 4 ranks"),
        (
            LLAMA | {"quantization": {"group_size": 128, "bits": 4}},
            8,
            "tensor",
            "its intermediate_size 512 cannot be divided by 8 ranks in quantization groups of 128",
        ),
    ],
)
def test_model_that_cannot_be_shared_is_refused(
    config: dict[str, Any], num_ranks: int, parallel: Any, problem: str
) -> None:
    with pytest.raises(CannotSplitError) as failure:
        choose_split(spec(), config, num_ranks, parallel)
    assert str(failure.value).startswith(problem)


def test_unproven_options_of_a_model_are_refused_by_name() -> None:
    quantized = TextModelOptions(kv_format=KVFormat(bits=8, group_size=64))
    refused = {
        "kv_bits": spec(task=TextGenerationTask(options=quantized)),
        "trust_remote_code": spec(trust_remote_code=True),
        "only text models": spec(
            task=EmbeddingTask(recipe=EmbeddingRecipe(pooling=("mean",), is_normalized=True, max_length=512))
        ),
    }
    for problem, refused_spec in refused.items():
        with pytest.raises(CannotSplitError, match=problem):
            choose_split(refused_spec, LLAMA, 2, "auto")
