"""Generated encoders with random weights, with the file layouts of real ones.

A tokenizer.json may truncate and pad, as those of MiniLM do; code that does not disable that gets other
embeddings.
"""

import json
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers
from tokenizers.processors import TemplateProcessing

from .vocabulary import sentences

_WIDTH = 64
_NUM_LAYERS = 4
_VOCABULARY = 512
_MAX_LENGTH = 400
Weights = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class EncoderFamily:
    """One family of generated encoders.

    `ends` are the tokens before and after every text; `beside` are further files, as JSON values. A
    cross-encoder has the tokens of `pair` around two texts, and no files of sentence-transformers.
    """

    name: str
    config: dict[str, Any]
    ends: tuple[str, str]
    special_tokens: tuple[str, ...]
    tokenizer: Callable[[], tuple[Tokenizer, Any]]
    weights: "Callable[[dict[str, Any], WeightGenerator], Weights]"
    beside: dict[str, Any] = field(default_factory=dict)
    dense: tuple[tuple[int, int], ...] = ()
    pair: str | None = None


class WeightGenerator:
    """Draws arrays from a seed."""

    def __init__(self, seed: int) -> None:
        self._dice = np.random.default_rng(seed)

    def matrix(self, rows: int, columns: int, *, gain: float = 1.0) -> Any:
        """Draw a matrix that keeps its input's scale, times `gain`."""
        return (self._dice.standard_normal((rows, columns)) * gain * columns**-0.5).astype(np.float32)

    def table(self, rows: int, columns: int) -> Any:
        """Draw rows with a standard deviation of one."""
        return self._dice.standard_normal((rows, columns)).astype(np.float32)

    def vector(self, length: int, *, around: float = 0.0) -> Any:
        """Draw small deviations from a number."""
        return (around + 0.2 * self._dice.standard_normal(length)).astype(np.float32)

    def linear(self, name: str, rows: int, columns: int, *, gain: float = 1.0) -> Weights:
        """Draw a linear layer with bias."""
        return {f"{name}.weight": self.matrix(rows, columns, gain=gain), f"{name}.bias": self.vector(rows)}

    def norm(self, name: str, width: int) -> Weights:
        """Draw a layer norm with bias."""
        return {f"{name}.weight": self.vector(width, around=1.0), f"{name}.bias": self.vector(width)}


def build_encoder(family: EncoderFamily, directory: Path) -> None:
    """Write the model's directory."""
    from safetensors.numpy import save_file

    draw = WeightGenerator(11)
    _tokenizer(family).save(str(directory / "tokenizer.json"))
    save_file(family.weights(family.config, draw), directory / "model.safetensors")
    if family.pair is None:
        _write_modules(family, directory, draw)
    _write(directory / "config.json", family.config)
    _write(directory / "tokenizer_config.json", {"model_max_length": _MAX_LENGTH})
    for name, value in family.beside.items():
        (directory / name).parent.mkdir(exist_ok=True)
        _write(directory / name, value)


def _write_modules(family: EncoderFamily, directory: Path, draw: WeightGenerator) -> None:
    from safetensors.numpy import save_file

    modules = ["Transformer", "Pooling", *["Dense"] * len(family.dense), "Normalize"]
    listed = [
        {
            "idx": place,
            "name": str(place),
            "path": f"{place}_{kind}" if place else "",
            "type": f"sentence_transformers.models.{kind}",
        }
        for place, kind in enumerate(modules)
    ]
    for place, (num_inputs, num_outputs) in enumerate(family.dense, start=2):
        folder = directory / f"{place}_Dense"
        folder.mkdir()
        save_file({"linear.weight": draw.matrix(num_outputs, num_inputs)}, folder / "model.safetensors")
        dense_config = {"in_features": num_inputs, "out_features": num_outputs, "bias": False}
        _write(
            folder / "config.json",
            {**dense_config, "activation_function": "torch.nn.modules.linear.Identity"},
        )
    _write(directory / "modules.json", listed)


def _tokenizer(family: EncoderFamily) -> Tokenizer:
    tokenizer, trainer = family.tokenizer()
    trainer.special_tokens = list(family.special_tokens)
    tokenizer.train_from_iterator(sentences(random.Random(7)), trainer)
    begin, end = family.ends
    ids = [(token, tokenizer.token_to_id(token)) for token in family.ends]
    tokenizer.post_processor = TemplateProcessing(
        single=f"{begin} $A {end}", pair=family.pair, special_tokens=ids
    )
    tokenizer.enable_truncation(8)
    tokenizer.enable_padding(length=16)
    return tokenizer


def _word_pieces() -> tuple[Tokenizer, Any]:
    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece()
    return tokenizer, trainers.WordPieceTrainer(vocab_size=_VOCABULARY, show_progress=False)


def _unigrams() -> tuple[Tokenizer, Any]:
    tokenizer = Tokenizer(models.Unigram())
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer.decoder = decoders.Metaspace()
    return tokenizer, trainers.UnigramTrainer(vocab_size=_VOCABULARY, unk_token="<unk>", show_progress=False)


def _byte_pairs() -> tuple[Tokenizer, Any]:
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    return tokenizer, trainers.BpeTrainer(
        vocab_size=_VOCABULARY, initial_alphabet=alphabet, show_progress=False
    )


def _bert_weights(config: dict[str, Any], draw: WeightGenerator) -> Weights:
    width, inner, layers = (
        config["hidden_size"],
        config["intermediate_size"],
        range(config["num_hidden_layers"]),
    )
    weights = {
        "embeddings.word_embeddings.weight": draw.table(_VOCABULARY, width),
        "embeddings.position_embeddings.weight": draw.table(config["max_position_embeddings"], width),
        "embeddings.token_type_embeddings.weight": draw.table(config["type_vocab_size"], width),
        "embeddings.position_ids": np.arange(config["max_position_embeddings"])[None],
        **draw.norm("embeddings.LayerNorm", width),
        **draw.linear("pooler.dense", width, width),
    }
    for layer in (f"encoder.layer.{index}" for index in layers):
        for name in ("query", "key", "value"):
            weights |= draw.linear(f"{layer}.attention.self.{name}", width, width, gain=1.5)
        weights |= draw.linear(f"{layer}.attention.output.dense", width, width)
        weights |= draw.norm(f"{layer}.attention.output.LayerNorm", width)
        weights |= draw.linear(f"{layer}.intermediate.dense", inner, width)
        weights |= draw.linear(f"{layer}.output.dense", width, inner)
        weights |= draw.norm(f"{layer}.output.LayerNorm", width)
    return weights


def _bert_scorer_weights(config: dict[str, Any], draw: WeightGenerator) -> Weights:
    encoder = {f"bert.{name}": array for name, array in _bert_weights(config, draw).items()}
    return encoder | draw.linear("classifier", 1, config["hidden_size"], gain=2.0)


def _roberta_scorer_weights(config: dict[str, Any], draw: WeightGenerator) -> Weights:
    encoder = {f"roberta.{name}": array for name, array in _bert_weights(config, draw).items()}
    width = config["hidden_size"]
    head = draw.linear("classifier.dense", width, width) | draw.linear(
        "classifier.out_proj", 1, width, gain=2.0
    )
    return {name: array for name, array in encoder.items() if "pooler" not in name} | head


def _modernbert_scorer_weights(config: dict[str, Any], draw: WeightGenerator) -> Weights:
    width = config["hidden_size"]
    return (
        _modernbert_weights(config, draw)
        | {"head.norm.weight": draw.vector(width, around=1.0)}
        | draw.linear("classifier", 1, width, gain=2.0)
    )


def _modernbert_weights(config: dict[str, Any], draw: WeightGenerator) -> Weights:
    width, inner = config["hidden_size"], config["intermediate_size"]
    weights = {
        "model.embeddings.tok_embeddings.weight": draw.table(_VOCABULARY, width),
        "model.embeddings.norm.weight": draw.vector(width, around=1.0),
        "model.final_norm.weight": draw.vector(width, around=1.0),
        "head.dense.weight": draw.matrix(width, width),
    }
    for index in range(config["num_hidden_layers"]):
        layer = f"model.layers.{index}"
        if index:
            weights[f"{layer}.attn_norm.weight"] = draw.vector(width, around=1.0)
        weights[f"{layer}.attn.Wqkv.weight"] = draw.matrix(3 * width, width, gain=1.5)
        weights[f"{layer}.attn.Wo.weight"] = draw.matrix(width, width)
        weights[f"{layer}.mlp_norm.weight"] = draw.vector(width, around=1.0)
        weights[f"{layer}.mlp.Wi.weight"] = draw.matrix(2 * inner, width)
        weights[f"{layer}.mlp.Wo.weight"] = draw.matrix(width, inner)
    return weights


def _gemma_weights(config: dict[str, Any], draw: WeightGenerator) -> Weights:
    width, inner, size = config["hidden_size"], config["intermediate_size"], config["head_dim"]
    heads, kept = config["num_attention_heads"] * size, config["num_key_value_heads"] * size
    norms = (
        "input_layernorm",
        "post_attention_layernorm",
        "pre_feedforward_layernorm",
        "post_feedforward_layernorm",
    )
    weights = {
        "embed_tokens.weight": draw.table(_VOCABULARY, width) * width**-0.5,
        "norm.weight": draw.vector(width),
    }
    for layer in (f"layers.{index}" for index in range(config["num_hidden_layers"])):
        for name, (rows, columns) in {
            "self_attn.q_proj": (heads, width),
            "self_attn.k_proj": (kept, width),
            "self_attn.v_proj": (kept, width),
            "self_attn.o_proj": (width, heads),
            "mlp.gate_proj": (inner, width),
            "mlp.up_proj": (inner, width),
            "mlp.down_proj": (width, inner),
        }.items():
            weights[f"{layer}.{name}.weight"] = draw.matrix(rows, columns)
        weights |= {f"{layer}.{name}.weight": draw.vector(width) for name in norms}
        weights |= {
            f"{layer}.self_attn.{name}.weight": draw.vector(size, around=0.5) for name in ("q_norm", "k_norm")
        }
    return weights


def _llama_weights(config: dict[str, Any], draw: WeightGenerator) -> Weights:
    width, inner = config["hidden_size"], config["intermediate_size"]
    kept = width // config["num_attention_heads"] * config["num_key_value_heads"]
    shapes = {
        "self_attn.q_proj": (width, width),
        "self_attn.k_proj": (kept, width),
        "self_attn.v_proj": (kept, width),
        "self_attn.o_proj": (width, width),
        "mlp.gate_proj": (inner, width),
        "mlp.up_proj": (inner, width),
        "mlp.down_proj": (width, inner),
    }
    weights = {
        "embed_tokens.weight": draw.table(_VOCABULARY, width),
        "norm.weight": draw.vector(width, around=1.0),
    }
    for layer in (f"layers.{index}" for index in range(config["num_hidden_layers"])):
        weights |= {f"{layer}.{name}.weight": draw.matrix(*shape) for name, shape in shapes.items()}
        for name in ("input_layernorm", "post_attention_layernorm"):
            weights[f"{layer}.{name}.weight"] = draw.vector(width, around=1.0)
    return weights


def _write(path: Path, value: Any) -> None:
    path.write_text(json.dumps(value, indent=2) + "\n", encoding="utf-8")


def _config(model_type: str, architecture: str, **more: Any) -> dict[str, Any]:
    return {
        "model_type": model_type,
        "architectures": [architecture],
        "vocab_size": _VOCABULARY,
        "hidden_size": _WIDTH,
        "num_hidden_layers": _NUM_LAYERS,
        "num_attention_heads": 4,
        "intermediate_size": 2 * _WIDTH,
        "max_position_embeddings": _MAX_LENGTH,
        "torch_dtype": "float32",
        **more,
    }


_CLS = {"1_Pooling/config.json": {"word_embedding_dimension": _WIDTH, "pooling_mode_cls_token": True}}
_MEAN = {"1_Pooling/config.json": {"word_embedding_dimension": _WIDTH, "pooling_mode_mean_tokens": True}}
_BERT = {
    "hidden_act": "gelu",
    "type_vocab_size": 2,
    "layer_norm_eps": 1e-12,
    "position_embedding_type": "absolute",
}
_ROBERTA = {
    **_BERT,
    "type_vocab_size": 1,
    "layer_norm_eps": 1e-5,
    "max_position_embeddings": _MAX_LENGTH + 2,
}
_MODERNBERT = {
    "local_attention": 16,
    "global_attn_every_n_layers": 3,
    "global_rope_theta": 160_000.0,
    "local_rope_theta": 10_000.0,
    "hidden_activation": "gelu",
    "norm_eps": 1e-5,
}
_BERT_SPECIAL_TOKENS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
_ALL = (
    EncoderFamily(
        name="bert",
        config=_config("bert", "BertModel", pad_token_id=0, **_BERT),
        ends=("[CLS]", "[SEP]"),
        special_tokens=_BERT_SPECIAL_TOKENS,
        tokenizer=_word_pieces,
        weights=_bert_weights,
        beside=_CLS,
    ),
    EncoderFamily(
        name="xlm_roberta",
        config=_config(
            "xlm-roberta",
            "XLMRobertaModel",
            pad_token_id=1,
            **_ROBERTA,
        ),
        ends=("<s>", "</s>"),
        special_tokens=("<s>", "<pad>", "</s>", "<unk>"),
        tokenizer=_unigrams,
        weights=_bert_weights,
        beside={
            **_MEAN,
            "config_sentence_transformers.json": {"prompts": {"query": "query: ", "passage": "passage: "}},
        },
    ),
    EncoderFamily(
        name="modernbert",
        config=_config("modernbert", "ModernBertForMaskedLM", **_MODERNBERT),
        ends=("[CLS]", "[SEP]"),
        special_tokens=("[PAD]", "[UNK]", "[CLS]", "[SEP]"),
        tokenizer=_byte_pairs,
        weights=_modernbert_weights,
        beside=_MEAN,
    ),
    EncoderFamily(
        name="embeddinggemma",
        config=_config(
            "gemma3_text",
            "Gemma3TextModel",
            use_bidirectional_attention=True,
            num_key_value_heads=1,
            head_dim=16,
            query_pre_attn_scalar=16,
            sliding_window=32,
            sliding_window_pattern=2,
            layer_types=["sliding_attention", "full_attention"] * (_NUM_LAYERS // 2),
            rope_theta=1_000_000.0,
            rope_local_base_freq=10_000.0,
            rms_norm_eps=1e-6,
            hidden_activation="gelu_pytorch_tanh",
        ),
        ends=("<bos>", "<eos>"),
        special_tokens=("<pad>", "<eos>", "<bos>", "<unk>"),
        tokenizer=_byte_pairs,
        weights=_gemma_weights,
        beside={
            **_MEAN,
            "config_sentence_transformers.json": {
                "prompts": {"query": "task: search result | query: ", "document": "title: none | text: "}
            },
        },
        dense=((_WIDTH, 2 * _WIDTH), (2 * _WIDTH, 48)),
    ),
    EncoderFamily(
        name="llama_bidirec",
        config=_config(
            "llama_bidirec",
            "LlamaBidirectionalModel",
            num_key_value_heads=2,
            rope_theta=500_000.0,
            rms_norm_eps=1e-5,
            hidden_act="silu",
            pooling="avg",
        ),
        ends=("<bos>", "<eos>"),
        special_tokens=("<pad>", "<eos>", "<bos>", "<unk>"),
        tokenizer=_byte_pairs,
        weights=_llama_weights,
        beside=_MEAN,
    ),
)
_SCORERS = (
    EncoderFamily(
        name="bert_scorer",
        config=_config(
            "bert", "BertForSequenceClassification", pad_token_id=0, id2label={"0": "LABEL_0"}, **_BERT
        )
        | {"sbert_ce_default_activation_function": "torch.nn.modules.linear.Identity"},
        ends=("[CLS]", "[SEP]"),
        pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=_BERT_SPECIAL_TOKENS,
        tokenizer=_word_pieces,
        weights=_bert_scorer_weights,
    ),
    EncoderFamily(
        name="xlm_roberta_scorer",
        config=_config(
            "xlm-roberta",
            "XLMRobertaForSequenceClassification",
            pad_token_id=1,
            id2label={"0": "LABEL_0"},
            **_ROBERTA,
        ),
        ends=("<s>", "</s>"),
        pair="<s> $A </s> </s> $B </s>",
        special_tokens=("<s>", "<pad>", "</s>", "<unk>"),
        tokenizer=_unigrams,
        weights=_roberta_scorer_weights,
    ),
    EncoderFamily(
        name="modernbert_scorer",
        config=_config(
            "modernbert",
            "ModernBertForSequenceClassification",
            id2label={"0": "LABEL_0"},
            classifier_pooling="mean",
            **_MODERNBERT,
        ),
        ends=("[CLS]", "[SEP]"),
        pair="[CLS] $A [SEP] $B [SEP]",
        special_tokens=_BERT_SPECIAL_TOKENS,
        tokenizer=_byte_pairs,
        weights=_modernbert_scorer_weights,
    ),
)
_BENCH = EncoderFamily(
    name="bert_bench",
    config={
        **_config("bert", "BertModel", pad_token_id=0, **_BERT),
        "hidden_size": 256,
        "intermediate_size": 1024,
        "num_hidden_layers": 6,
    },
    ends=("[CLS]", "[SEP]"),
    special_tokens=_BERT_SPECIAL_TOKENS,
    tokenizer=_word_pieces,
    weights=_bert_weights,
    beside=_MEAN,
)
ENCODERS = {family.name: family for family in (*_ALL, *_SCORERS, _BENCH)}
