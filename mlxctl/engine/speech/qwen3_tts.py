"""Qwen3-TTS: a talker that writes codes, and a causal decoder.

MLX thread only. Here its files are opened.
"""

from pathlib import Path
from typing import Any

from mlx.utils import tree_flatten

from mlxctl.engine.loading.audio_modules import give_weights, open_tokenizer, read_config, read_tensors
from mlxctl.engine.speech.batch import SpeechBatch
from mlxctl.engine.speech.qwen3_batch import Qwen3Batch
from mlxctl.ir import SpeechRecipe

MODULES = ("mlx_audio.tts.models.qwen3_tts.qwen3_tts", "transformers")
_ENCODER = "encoder_model."


def open_model(path: Path) -> Any:
    """Return the model at `path` with its speech tokenizer.

    Their parameters are not yet read. Raises ValueError for weights that do not fit its layers.
    """
    from mlx_audio.tts.models.qwen3_tts.qwen3_tts import Model, ModelConfig

    config = read_config(path)
    model = Model(ModelConfig.from_dict(config))
    give_weights(model, model.sanitize(read_tensors(path)), config)
    model.tokenizer = open_tokenizer(path)
    generation = path / "generation_config.json"
    if generation.is_file():
        import json

        model.load_generate_config(json.loads(generation.read_text(encoding="utf-8")))
    model.load_speech_tokenizer(_open_speech_tokenizer(path / "speech_tokenizer"))
    return model


def _open_speech_tokenizer(path: Path) -> Any:
    """Return the codec; its encoder is left out where weights are."""
    from mlx_audio.tts.models.qwen3_tts.config import Qwen3TTSTokenizerConfig, filter_dict_for_dataclass
    from mlx_audio.tts.models.qwen3_tts.speech_tokenizer import Qwen3TTSSpeechTokenizer

    def create() -> Any:
        values = filter_dict_for_dataclass(Qwen3TTSTokenizerConfig, config)
        return Qwen3TTSSpeechTokenizer(Qwen3TTSTokenizerConfig(**values))

    config = read_config(path)
    weights = Qwen3TTSSpeechTokenizer.sanitize(read_tensors(path))
    codec = create()
    own = dict(tree_flatten(codec.parameters()))
    # mlx-audio leaves out these flags of training.
    weights |= {name: value for name, value in own.items() if name.endswith(".initialized")}
    if any(name.startswith(_ENCODER) and name not in weights for name in own):
        del config["encoder_config"]
        codec = create()
    give_weights(codec, weights, config)
    if codec.encoder_model is not None:
        quantizer = codec.encoder_model.quantizer
        for layer in (*quantizer.rvq_first.vq.layers, *quantizer.rvq_rest.vq.layers):
            layer.codebook.update_in_place()
    return codec


def create_batch(model: Any, recipe: SpeechRecipe) -> SpeechBatch:
    """Return the model's requests, which are computed together."""
    return Qwen3Batch(model, recipe)
