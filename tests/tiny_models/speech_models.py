"""Generated speech models with random weights and real file layouts.

What they say is noise, which ends at a random frame.
"""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, trainers

_WORDS = ("the", "quick", "brown", "fox", "jumps", "over", "lazy", "dog", "hello", "world")
_QWEN_TOKENS = ("<|im_start|>", "<|im_end|>", "<|pad|>", "<|bos|>", "<|eos|>")
_SOPRANO_TOKENS = ("[STOP]", "[TEXT]", "[START]", "[UNK]")
_POCKET_WIDTH = 16
_PHONEMES = ';:,.!?—…"()“” AIOQWYabdefhijklmnpstuvwzæðŋɐɑɒɔəɛɜɡɪɹɾʃʊʌʒʔʤʧˈˌːθᵊᵻT'
_SPEAKER_ENCODER = {
    "enc_dim": 32, "enc_channels": [72, 72, 72, 72, 216], "enc_attention_channels": 72,
    "enc_res2net_scale": 4, "enc_se_channels": 72,
}  # fmt: skip
_CODEC_ENCODER = {
    "frame_rate": 750, "codebook_dim": 8, "codebook_size": 32, "head_dim": 8, "hidden_size": 16,
    "intermediate_size": 32, "num_attention_heads": 2, "num_key_value_heads": 2, "num_filters": 2,
    "num_hidden_layers": 1, "num_quantizers": 4, "upsampling_ratios": [2, 2, 2, 2],
    "vector_quantization_hidden_dimension": 8,
}  # fmt: skip
# Names of the codec's encoder in mlx-audio and in the published files, whose layers are numbered through.
_ENCODER_NAMES = (
    (r"encoder\.init_conv1d\.conv", lambda _: "encoder.layers.0"),
    (r"encoder\.final_conv1d\.conv", lambda _: "encoder.layers.14"),
    (r"encoder\.layers\.(\d)\.downsample\.conv", lambda m: f"encoder.layers.{3 + 3 * int(m[1])}"),
    (
        r"encoder\.layers\.(\d)\.residuals\.0\.block\.(\d)\.conv",
        lambda m: f"encoder.layers.{1 + 3 * int(m[1])}.block.{1 + 2 * int(m[2])}",
    ),
    (r"encoder_transformer\.transformer", lambda _: "encoder_transformer"),
    (r"self_attn\.out_proj", lambda _: "self_attn.o_proj"),
    (r"gating\.linear(\d)", lambda m: f"mlp.fc{m[1]}"),
    (r"norm1", lambda _: "input_layernorm"),
    (r"norm2", lambda _: "post_attention_layernorm"),
    (r"layer_scale_1", lambda _: "self_attn_layer_scale"),
    (r"layer_scale_2", lambda _: "mlp_layer_scale"),
    (r"downsample\.conv\.conv", lambda _: "downsample"),
    (r"rvq_first\.(vq\.)?", lambda _: "semantic_residual_vector_quantizer."),
    (r"rvq_rest\.(vq\.)?", lambda _: "acoustic_residual_vector_quantizer."),
    (r"embedding_sum", lambda _: "embed_sum"),
)


def build_qwen3_tts(directory: Path, *, kind: str = "custom_voice") -> None:
    """Write a Qwen3-TTS model with its speech tokenizer."""
    import mlx.core as mx
    from mlx_audio.tts.models.qwen3_tts.config import Qwen3TTSTokenizerConfig
    from mlx_audio.tts.models.qwen3_tts.qwen3_tts import Model, ModelConfig
    from mlx_audio.tts.models.qwen3_tts.speech_tokenizer import Qwen3TTSSpeechTokenizer

    tokenizer = _tokenizer(_QWEN_TOKENS)
    start, end, pad, bos, eos = map(tokenizer.token_to_id, _QWEN_TOKENS)
    layers = {
        "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4,
        "num_key_value_heads": 2, "head_dim": 8, "num_code_groups": 4,
    }  # fmt: skip
    # The last 1,024 ids are marks; of the others, 32 are sounds.
    talker = {
        **layers, "vocab_size": 1024 + 32, "text_hidden_size": 24,
        "text_vocab_size": tokenizer.get_vocab_size(), "codec_eos_token_id": 40, "codec_think_id": 41,
        "codec_nothink_id": 42, "codec_think_bos_id": 43, "codec_think_eos_id": 44, "codec_pad_id": 45,
        "codec_bos_id": 46, "spk_id": {"ada": 50, "bob": 51},
        "codec_language_id": {"english": 52, "german": 53, "x_dialect": 54},
        "spk_is_dialect": {"ada": False, "bob": False},
        "rope_scaling": {"interleaved": True, "mrope_section": [2, 1, 1], "rope_type": "default"},
        "code_predictor_config": {**layers, "vocab_size": 32},
    }  # fmt: skip
    config = {
        "model_type": "qwen3_tts", "tts_model_type": kind, "tts_model_size": "1b7", "talker_config": talker,
        "im_start_token_id": start, "im_end_token_id": end, "tts_pad_token_id": pad,
        "tts_bos_token_id": bos, "tts_eos_token_id": eos,
    }  # fmt: skip
    codec = {
        "decoder_config": {
            "latent_dim": 16, "codebook_dim": 256, "codebook_size": 32, "decoder_dim": 288, "hidden_size": 16,
            "intermediate_size": 32, "head_dim": 8, "num_attention_heads": 2, "num_key_value_heads": 2,
            "num_hidden_layers": 1, "num_quantizers": 4, "upsample_rates": [4, 2], "upsampling_ratios": [2],
        },
        "decode_upsample_rate": 16,
    }  # fmt: skip
    if kind == "base":
        config["speaker_encoder_config"] = _SPEAKER_ENCODER
        codec["encoder_config"] = _CODEC_ENCODER
    mx.random.seed(3)
    _save(Model(ModelConfig.from_dict(config)), directory, config, layout=_torch_layout)
    speech_tokenizer = Qwen3TTSSpeechTokenizer(Qwen3TTSTokenizerConfig(**codec))
    _save(speech_tokenizer, directory / "speech_tokenizer", codec, layout=_codec_layout)
    tokenizer.save(str(directory / "tokenizer.json"))
    _write(directory / "tokenizer_config.json", {"tokenizer_class": "PreTrainedTokenizerFast"})
    _write(directory / "generation_config.json", {"max_new_tokens": 30, "top_k": 20, "temperature": 0.9})


def build_qwen3_tts_design(directory: Path) -> None:
    """Write a Qwen3-TTS model whose voice is described by instructions."""
    build_qwen3_tts(directory, kind="voice_design")


def build_qwen3_tts_base(directory: Path) -> None:
    """Write a Qwen3-TTS model that clones voices."""
    build_qwen3_tts(directory, kind="base")


def build_soprano(directory: Path) -> None:
    """Write a Soprano model."""
    import mlx.core as mx
    from mlx_audio.tts.models.soprano.soprano import Model, ModelConfig

    tokenizer = _tokenizer(_SOPRANO_TOKENS)
    config = {
        "model_type": "soprano", "hidden_size": 32, "num_hidden_layers": 2, "intermediate_size": 64,
        "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 8, "rms_norm_eps": 1e-6,
        "rope_theta": 10_000.0, "max_position_embeddings": 1024, "tie_word_embeddings": False,
        "vocab_size": tokenizer.get_vocab_size(),
    }  # fmt: skip
    values = ModelConfig.from_dict({**config, "model_path": str(directory)})
    values.decoder_config.decoder_num_layers = 8
    values.decoder_config.decoder_dim, values.decoder_config.decoder_intermediate_dim = 16, 32
    mx.random.seed(3)
    model = Model(values)
    _save(model, directory, config)
    tokenizer.save(str(directory / "tokenizer.json"))
    _write(
        directory / "tokenizer_config.json",
        {"tokenizer_class": "PreTrainedTokenizerFast", "pad_token": "[STOP]"},
    )


def build_pocket_tts(directory: Path) -> None:
    """Write a Pocket TTS model with two voices and its encoder."""
    import mlx.core as mx
    from mlx_audio.tts.models.pocket_tts.pocket_tts import Model, ModelConfig

    tokenizer = _tokenizer((".", "!", "?", "..."))
    tokenizer.save(str(directory / "tokenizer.json"))
    config = {
        "model_type": "pocket_tts",
        "flow_lm": {
            "d_model": _POCKET_WIDTH, "num_heads": 2, "num_layers": 2, "dim_feedforward": 32,
            "max_period": 10_000, "n_bins": tokenizer.get_vocab_size(), "lut_dim": 8, "flow_dim": 16,
            "flow_depth": 1, "ldim": 4,
        },
        "mimi": {
            "channels": 1, "sample_rate": 24_000, "frame_rate": 12.5, "dimension": 8,
            "quantizer_dimension": 4, "quantizer_output_dimension": 8, "n_filters": 2,
            "n_residual_layers": 1, "ratios": [6, 5, 4], "kernel_size": 3, "last_kernel_size": 3,
            "residual_kernel_size": 3, "dilation_base": 2, "compress": 2, "transformer_d_model": 8,
            "transformer_num_heads": 2, "transformer_num_layers": 1, "transformer_layer_scale": 0.01,
            "transformer_context": 16, "transformer_max_period": 10_000, "transformer_dim_feedforward": 16,
        },
        "eos_threshold": 0.0,
    }  # fmt: skip
    mx.random.seed(3)
    model = Model(ModelConfig.from_dict({**config, "model_path": str(directory)}))
    for layer in model.mimi.decoder.layers:
        # Drawn weights let almost nothing through.
        layer.upsample.convtr.convtr.weight = layer.upsample.convtr.convtr.weight * 50
    _save(model, directory, config)
    (directory / "voices").mkdir()
    for name in ("ada", "bob"):
        voice = mx.random.normal((1, 5, _POCKET_WIDTH))
        mx.save_safetensors(str(directory / "voices" / f"{name}.safetensors"), {"audio_prompt": voice})


def build_voxtral_tts(directory: Path) -> None:
    """Write a Voxtral TTS model with two voices; its tokenizer is empty."""
    import mlx.core as mx
    from mlx.utils import tree_flatten
    from mlx_audio.tts.models.voxtral_tts.voxtral_tts import Model, ModelConfig

    sizes = {"dim": 32, "n_layers": 2, "head_dim": 8, "hidden_dim": 64, "n_heads": 4, "n_kv_heads": 2}
    config = {
        "model_type": "voxtral_tts", **sizes, "vocab_size": 64, "semantic_codebook_size": 126,
        "acoustic_codebook_size": 5, "n_acoustic_codebook": 4, "num_codebooks": 5,
        **{f"acoustic_{name}": 1 if name == "n_layers" else size for name, size in sizes.items()},
        "tokenizer_dim": 32, "tokenizer_hidden_dim": 64, "tokenizer_n_heads": 4, "tokenizer_n_kv_heads": 4,
        "tokenizer_head_dim": 8, "tokenizer_semantic_dim": 8, "tokenizer_acoustic_dim": 4,
        "tokenizer_decoder_transformer_lengths_str": "1,1,1,1",
    }  # fmt: skip
    mx.random.seed(3)
    model = Model(ModelConfig.from_dict(config))
    # mlx-audio leaves its convolutions and codebooks zero.
    drawn = [
        (name, array if array.any() else mx.random.normal(array.shape) / 4)
        for name, array in tree_flatten(model.parameters())
    ]
    model.load_weights(drawn)
    _save(model, directory, config)
    marks = {"[REPEAT_AUDIO_TEXT]": 35, "[NEXT_AUDIO_TEXT]": 36}
    special = [{"token_str": mark, "rank": rank} for mark, rank in marks.items()]
    _write(directory / "tekken.json", {"special_tokens": special})
    (directory / "voice_embedding").mkdir()
    for name in ("ada", "bob"):
        voice = mx.random.normal((3, sizes["dim"]))
        mx.save_safetensors(str(directory / "voice_embedding" / f"{name}.safetensors"), {"embedding": voice})


def build_kokoro(directory: Path) -> None:
    """Write a Kokoro model with an American and a British voice.

    Most of its widths are fixed in mlx-audio, so it has 180 MB.
    """
    import mlx.core as mx
    from mlx.utils import tree_flatten
    from mlx_audio.tts.models.kokoro.kokoro import Model, ModelConfig

    config = {
        "istftnet": {
            "upsample_kernel_sizes": [4, 4], "upsample_rates": [2, 2], "gen_istft_hop_size": 2,
            "gen_istft_n_fft": 8, "resblock_dilation_sizes": [[1, 3, 5]], "resblock_kernel_sizes": [3],
            "upsample_initial_channel": 512,
        },
        "dim_in": 512, "dropout": 0.2, "hidden_dim": 512, "max_conv_dim": 512, "max_dur": 2,
        "multispeaker": True, "n_layer": 1, "n_mels": 8, "n_token": len(_PHONEMES) + 1, "style_dim": 128,
        "text_encoder_kernel_size": 3,
        "plbert": {
            "hidden_size": 16, "num_attention_heads": 2, "intermediate_size": 16, "num_hidden_layers": 2,
            "max_position_embeddings": 512, "embedding_size": 8,
        },
        "vocab": {phoneme: place for place, phoneme in enumerate(_PHONEMES, start=1)},
    }  # fmt: skip
    mx.random.seed(3)
    model = Model(ModelConfig.from_dict(config))
    # mlx-audio leaves the directions of its convolutions equal.
    drawn = [
        (name, mx.random.normal(array.shape) if name.endswith("weight_v") else array)
        for name, array in tree_flatten(model.parameters())
    ]
    model.load_weights(drawn)
    model.decoder.generator.conv_post.weight_g *= 0.1
    _save(model, directory, config, layout=_torch_layout)
    (directory / "voices").mkdir()
    for name in ("af_ada", "bm_bob", "jf_cho"):
        voice = mx.random.normal((510, 1, 256)) / 4
        mx.save_safetensors(str(directory / "voices" / f"{name}.safetensors"), {"voice": voice})


BUILDERS: dict[str, Callable[[Path], None]] = {
    "qwen3_tts": build_qwen3_tts,
    "qwen3_tts_design": build_qwen3_tts_design,
    "qwen3_tts_base": build_qwen3_tts_base,
    "soprano": build_soprano,
    "pocket_tts": build_pocket_tts,
    "voxtral_tts": build_voxtral_tts,
    "kokoro": build_kokoro,
}


def _tokenizer(tokens: tuple[str, ...]) -> Tokenizer:
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=300, initial_alphabet=alphabet, show_progress=False)
    tokenizer.train_from_iterator([f" {word}" for word in _WORDS] * 2, trainer)
    tokenizer.add_tokens([AddedToken(token, special=True, normalized=False) for token in tokens])
    return tokenizer


def _torch_layout(model: Any, weights: dict[str, Any]) -> dict[str, Any]:
    """Return the tensors in the layouts of published files."""
    return {name: _unsanitized(model, name, array) for name, array in weights.items()}


def _codec_layout(model: Any, weights: dict[str, Any]) -> dict[str, Any]:
    """Return the codec's tensors as published files have them."""
    import mlx.core as mx

    laid_out = {}
    for name, array in weights.items():
        if not name.startswith("encoder_model."):
            laid_out[name] = _unsanitized(model, name, array)
            continue
        published = name.replace("encoder_model.", "encoder.", 1)
        for pattern, new in _ENCODER_NAMES:
            published = re.sub(pattern, new, published)
        if name.endswith(".in_proj.weight"):
            for part, piece in zip("qkv", array.split(3), strict=True):
                laid_out[published.replace("in_proj", f"{part}_proj")] = piece
        elif name.endswith(("embedding_sum", "cluster_usage")):
            laid_out[published] = mx.random.uniform(shape=array.shape) + 0.5
        else:
            laid_out[published] = array.swapaxes(-1, -2) if array.ndim == 3 else array
    return laid_out


def _unsanitized(model: Any, name: str, array: Any) -> Any:
    """Return the layout of a tensor that loading turns into `array`."""
    if array.ndim != 3:
        return array
    for order in ((0, 1, 2), (0, 2, 1), (2, 0, 1)):
        given = array.transpose(order)
        loaded = model.sanitize({name: given})[name]
        if loaded.shape == array.shape and (loaded == array).all():
            return given
    raise AssertionError(f"no layout of {name} is loaded as it was")


def _save(
    model: Any,
    directory: Path,
    config: dict[str, Any],
    *,
    layout: Callable[[Any, dict[str, Any]], dict[str, Any]] = lambda _, weights: weights,
) -> None:
    import mlx.core as mx
    from mlx.utils import tree_flatten

    directory.mkdir(exist_ok=True)
    weights = layout(model, dict(tree_flatten(model.parameters())))
    mx.save_safetensors(str(directory / "model.safetensors"), weights)
    _write(directory / "config.json", config)


def _write(file: Path, value: Any) -> None:
    file.write_text(json.dumps(value, indent=2) + "\n", encoding="utf-8")
