"""Generated speech models with random weights, with the file layouts of mlx-audio's.

`transcription_model(name)` is one of TRANSCRIPTION_NAMES, built at the first use.
"""

import base64
import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

from .directory_cache import in_cache, recipe_digest
from .vocabulary import sentences

_WIDTH = 32
_PIECES = [
    "<unk>", *(f"▁{word}" for word in ("the", "sea", "is", "calm", "and", "we", "sail", "home")),
    *"abcdefghij", ".", "?",
]  # fmt: skip
_PREPROCESSOR = {
    "sample_rate": 16_000, "normalize": "per_feature", "window_size": 0.025, "window_stride": 0.01,
    "window": "hann", "features": 16, "n_fft": 512, "dither": 0.0,
}  # fmt: skip
_CONFORMER = {
    "feat_in": 16, "n_layers": 2, "d_model": _WIDTH, "n_heads": 2, "ff_expansion_factor": 2,
    "subsampling_factor": 8, "self_attention_model": "rel_pos", "subsampling": "dw_striding",
    "conv_kernel_size": 5, "subsampling_conv_channels": 8, "pos_emb_max_len": 2000,
}  # fmt: skip
_NEMO = "nemo.collections.asr.models"
_DURATIONS = [0, 1, 2, 3, 4]
_SPECIAL = (
    "<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|audio_start|>", "<|audio_end|>", "<|audio_pad|>",
    "<asr_text>", "<timestamp>",
)  # fmt: skip


def transcription_model(name: str) -> Path:
    """Return the directory of a generated model.

    Raises KeyError for an unknown name.
    """
    build = _BUILDERS[name]
    return in_cache(name, recipe_digest(name, "transcription_models", "vocabulary"), build)


def _parakeet_config(kind: str) -> dict[str, Any]:
    """Return config.json as NeMo's conversions write it: without a model_type."""
    size = len(_PIECES)
    shared = {"preprocessor": _PREPROCESSOR, "encoder": _CONFORMER}
    if kind == "ctc":
        decoder = {"feat_in": _WIDTH, "num_classes": size, "vocabulary": _PIECES}
        target = f"{_NEMO}.ctc_bpe_models.EncDecCTCModelBPE"
        return {"target": target, **shared, "decoder": decoder, "decoding": {"greedy": None}}
    durations = _DURATIONS if kind == "tdt" else []
    prediction = {"pred_hidden": 16, "pred_rnn_layers": 1}
    joint = {
        "num_classes": size,
        "vocabulary": _PIECES,
        "num_extra_outputs": len(durations),
        "jointnet": {"joint_hidden": 16, "activation": "relu", "encoder_hidden": _WIDTH, "pred_hidden": 16},
    }
    decoding: dict[str, Any] = {"greedy": {"max_symbols": 3}}
    return {
        "target": f"{_NEMO}.rnnt_bpe_models.EncDecRNNTBPEModel",
        "model_defaults": {"tdt_durations": durations} if durations else {},
        **shared,
        "decoder": {"blank_as_pad": True, "vocab_size": size, "prednet": prediction},
        "joint": joint,
        "decoding": {"model_type": "tdt", "durations": durations, **decoding} if durations else decoding,
    }


def _build_parakeet(kind: str) -> Callable[[Path], None]:
    def build(directory: Path) -> None:
        config = _parakeet_config(kind)
        _write(directory, config, "mlx_audio.stt.models.parakeet.parakeet", seed=3)

    return build


def _qwen_config(*, aligns: bool) -> dict[str, Any]:
    audio = {
        "num_mel_bins": 16, "encoder_layers": 2, "encoder_attention_heads": 2, "encoder_ffn_dim": 64,
        "d_model": _WIDTH, "output_dim": _WIDTH, "downsample_hidden_size": 8, "n_window": 50,
        "n_window_infer": 800, "max_source_positions": 500,
    }  # fmt: skip
    text = {
        "vocab_size": 320, "hidden_size": _WIDTH, "intermediate_size": 64, "num_hidden_layers": 2,
        "num_attention_heads": 2, "num_key_value_heads": 1, "head_dim": 16, "max_position_embeddings": 4096,
    }  # fmt: skip
    ids = {token: 256 + index for index, token in enumerate(_SPECIAL)}
    kind = "qwen3_forced_aligner" if aligns else "qwen3_asr"
    thinker = {
        "model_type": kind,
        "audio_config": audio,
        "text_config": text,
        "audio_token_id": ids["<|audio_pad|>"],
        "classify_num": 100,
    }
    return {
        "model_type": "qwen3_asr",
        "architectures": ["Qwen3ASRForConditionalGeneration"],
        "thinker_config": thinker,
        "support_languages": ["English", "German"],
        "timestamp_token_id": ids["<timestamp>"],
        "timestamp_segment_time": 80,
    }


def _build_qwen(*, aligns: bool) -> Callable[[Path], None]:
    def build(directory: Path) -> None:
        _write(
            directory,
            _qwen_config(aligns=aligns),
            "mlx_audio.stt.models.qwen3_asr.qwen3_asr",
            seed=10 if aligns else 5,
        )
        _write_tokenizer(directory)
        extractor = {"feature_extractor_type": "WhisperFeatureExtractor", "feature_size": 16}
        (directory / "preprocessor_config.json").write_text(json.dumps(extractor))

    return build


def _build_canary(directory: Path) -> None:
    size = 300
    _write_sentencepiece(
        directory / "tokenizer.model",
        ("<|startofcontext|>", "<|startoftranscript|>", "<|emo:undefined|>", "<|endoftext|>", "<|en|>",
         "<|de|>", "<|pnc|>", "<|nopnc|>", "<|noitn|>", "<|notimestamp|>", "<|nodiarize|>"),
    )  # fmt: skip
    decoder = {"num_layers": 2, "hidden_size": _WIDTH, "num_attention_heads": 2, "inner_size": 64}
    config = {
        "model_type": "canary",
        "preprocessor": _PREPROCESSOR,
        "encoder": _CONFORMER,
        "transf_decoder": decoder,
        "vocab_size": size,
        "enc_output_dim": _WIDTH,
    }
    _write(directory, config, "mlx_audio.stt.models.canary", seed=4)


def _build_sensevoice(directory: Path) -> None:
    pieces = ["<blank>", *_PIECES]
    (directory / "tokens.json").write_text(json.dumps(pieces))
    encoder = {
        "output_size": _WIDTH, "attention_heads": 2, "linear_units": 64, "num_blocks": 3, "tp_blocks": 2,
        "kernel_size": 5,
    }  # fmt: skip
    frontend = {"n_mels": 16, "lfr_m": 3, "lfr_n": 2}
    config = {
        "model_type": "sensevoice",
        "vocab_size": len(pieces),
        "input_size": 48,
        "encoder_conf": encoder,
        "frontend_conf": frontend,
        "cmvn_means": [-8.0] * 48,
        "cmvn_istd": [0.2] * 48,
    }
    _write(directory, config, "mlx_audio.stt.models.sensevoice", seed=4)


def _build_sortformer(directory: Path) -> None:
    """Write a streaming model."""
    encoder = {
        "hidden_size": _WIDTH, "num_hidden_layers": 2, "num_attention_heads": 2, "num_key_value_heads": 2,
        "intermediate_size": 64, "num_mel_bins": 16, "conv_kernel_size": 5, "subsampling_conv_channels": 8,
    }  # fmt: skip
    config = {
        "model_type": "sortformer",
        "fc_encoder_config": encoder,
        "tf_encoder_config": {
            "d_model": 16, "encoder_layers": 2, "encoder_attention_heads": 2, "encoder_ffn_dim": 32,
        },
        "modules_config": {"fc_d_model": _WIDTH, "tf_d_model": 16, "use_aosc": True},
        "processor_config": {"feature_size": 16},
    }  # fmt: skip
    _write(directory, config, "mlx_audio.vad.models.sortformer", seed=3)


def _build_voxtral(directory: Path) -> None:
    audio = {
        "num_mel_bins": 16, "encoder_layers": 2, "encoder_attention_heads": 2, "encoder_ffn_dim": 64,
        "d_model": 16, "intermediate_size": 64, "max_source_positions": 1500,
    }  # fmt: skip
    text = {
        "vocab_size": 320, "hidden_size": _WIDTH, "intermediate_size": 64, "num_hidden_layers": 2,
        "num_attention_heads": 2, "num_key_value_heads": 1, "head_dim": 16,
    }  # fmt: skip
    config = {"model_type": "voxtral", "audio_config": audio, "text_config": text, "audio_token_id": 24}
    _write(directory, config, "mlx_audio.stt.models.voxtral", seed=3)
    _write_tekken(directory)
    extractor = {"feature_extractor_type": "WhisperFeatureExtractor", "feature_size": 16}
    (directory / "preprocessor_config.json").write_text(json.dumps(extractor))


def _build_voxtral_realtime(directory: Path) -> None:
    """Write a model whose encoder takes two seconds at once.

    mlx-audio fixes the decoder's width.
    """
    encoder = {
        "dim": 16, "n_layers": 2, "n_heads": 2, "head_dim": 8, "hidden_dim": 32, "n_kv_heads": 2,
        "sliding_window": 100,
    }  # fmt: skip
    decoder = {
        "dim": 3072, "n_layers": 2, "n_heads": 2, "n_kv_heads": 1, "head_dim": 8, "hidden_dim": 16,
        "vocab_size": 320, "ada_rms_norm_t_cond_dim": 4,
    }  # fmt: skip
    config = {"model_type": "voxtral_realtime", "encoder_args": encoder, "decoder": decoder}
    _write(directory, config, "mlx_audio.stt.models.voxtral_realtime", seed=3)
    _write_tekken(directory)


def _write_tekken(directory: Path) -> None:
    """Write Mistral's tokenizer with all bytes, two merges, and 40 special tokens."""
    names = {
        0: "<unk>", 1: "<s>", 2: "</s>", 3: "[INST]", 4: "[/INST]", 11: "<pad>", 24: "[AUDIO]",
        25: "[BEGIN_AUDIO]", 32: "[STREAMING_PAD]", 34: "[TRANSCRIBE]",
    }  # fmt: skip
    special = [
        {"rank": rank, "token_str": names.get(rank, f"<SPECIAL_{rank}>"), "is_control": True}
        for rank in range(40)
    ]
    pieces = [*(bytes([byte]) for byte in range(256)), b"an", b"lan"]
    vocab = [
        {"rank": rank, "token_bytes": base64.b64encode(piece).decode(), "token_str": None}
        for rank, piece in enumerate(pieces)
    ]
    size = {"default_vocab_size": len(special) + len(vocab), "default_num_special_tokens": len(special)}
    config = {"pattern": ".+", "num_vocab_tokens": len(vocab), "version": "v7", **size}
    tekken = {"config": config, "vocab": vocab, "special_tokens": special}
    (directory / "tekken.json").write_text(json.dumps(tekken))


def _write_sentencepiece(file: Path, symbols: tuple[str, ...]) -> None:
    import sentencepiece

    with file.open("wb") as writer:
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=sentences(random.Random(1)),
            model_writer=writer,
            vocab_size=300,
            hard_vocab_limit=False,
            user_defined_symbols=list(symbols),
            minloglevel=2,
        )


def _write_tokenizer(directory: Path) -> None:
    """Write a byte tokenizer as Qwen writes its own: without tokenizer.json."""
    from tokenizers import pre_tokenizers

    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    (directory / "vocab.json").write_text(json.dumps({char: index for index, char in enumerate(alphabet)}))
    (directory / "merges.txt").write_text("#version: 0.2\n")
    added = {
        str(256 + index): {
            "content": token, "lstrip": False, "rstrip": False, "normalized": False, "single_word": False,
            "special": token != "<asr_text>",
        }
        for index, token in enumerate(_SPECIAL)
    }  # fmt: skip
    settings = {
        "tokenizer_class": "Qwen2Tokenizer",
        "added_tokens_decoder": added,
        "eos_token": "<|im_end|>",
        "pad_token": "<|endoftext|>",
    }
    (directory / "tokenizer_config.json").write_text(json.dumps(settings))


def _write(directory: Path, config: dict[str, Any], package: str, *, seed: int) -> None:
    """Write configuration and random weights of the package's model."""
    import importlib

    import mlx.core as mx
    from mlx.utils import tree_flatten

    module: Any = importlib.import_module(package)
    mx.random.seed(seed)
    model = module.Model(module.ModelConfig.from_dict(dict(config)))
    weights = {name: _drawn(name, array) for name, array in tree_flatten(model.parameters())}
    mx.save_safetensors(str(directory / "model.safetensors"), weights)
    (directory / "config.json").write_text(json.dumps(config))


def _drawn(name: str, array: Any) -> Any:
    """Return weights that make answers vary.

    Those of a new module are small, and its biases zero.
    """
    import mlx.core as mx

    if "running" in name or array.ndim == 0:
        return array
    if "fsmn_block" in name:
        # SenseVoice's files have the layout of PyTorch.
        array = array.transpose(0, 2, 1)
    if "norm" in name and name.endswith("weight"):
        return array + 0.1 * mx.random.normal(array.shape)
    scale = 0.1 if array.ndim == 1 else (array.size / array.shape[0]) ** -0.5 * 2
    return mx.random.normal(array.shape) * scale


_BUILDERS: dict[str, Callable[[Path], None]] = {
    "parakeet_tdt": _build_parakeet("tdt"),
    "parakeet_rnnt": _build_parakeet("rnnt"),
    "parakeet_ctc": _build_parakeet("ctc"),
    "qwen3_asr": _build_qwen(aligns=False),
    "qwen3_forced_aligner": _build_qwen(aligns=True),
    "canary": _build_canary,
    "sensevoice": _build_sensevoice,
    "sortformer": _build_sortformer,
    "voxtral": _build_voxtral,
    "voxtral_realtime": _build_voxtral_realtime,
}
TRANSCRIPTION_NAMES = tuple(_BUILDERS)
