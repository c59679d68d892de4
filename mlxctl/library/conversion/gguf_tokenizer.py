"""The tokenizer of a GGUF file as tokenizer.json and tokenizer_config.json.

Byte-level BPE (`gpt2`) and SentencePiece's BPE (`llama`). What the names of pre-tokenizers mean is in
src/llama-vocab.cpp of the llama.cpp repository, with the expressions of the original tokenizers.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from mlxctl.library.conversion.gguf_file import GgufFile

_NORMAL, _UNKNOWN, _CONTROL, _USER_DEFINED, _UNUSED, _BYTE = range(1, 7)
_SPACE = "▁"
# A token is split at every place to find its merges.
_MAX_TOKEN_CHARACTERS = 1000
_MAX_TEMPLATE_BYTES = 1 << 20
# Tokens that end an answer wherever they are in a vocabulary.
_END_TOKENS: Final = (
    "<|eot_id|>", "<|eom_id|>", "<|im_end|>", "<|end|>", "<end_of_turn>", "<|endoftext|>", "<|end_of_text|>",
    "<EOT>", "<｜end▁of▁sentence｜>", "<end_of_utterance>", "</s>", "<eos>",
)  # fmt: skip

_CONTRACTIONS = "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
_WORDS_TO_SPACES = (
    r"{contractions}|[^\r\n\p{{L}}\p{{N}}]?\p{{L}}+|\p{{N}}{digits}| ?[^\s\p{{L}}\p{{N}}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+"
)
_LLAMA3 = _WORDS_TO_SPACES.format(contractions=_CONTRACTIONS, digits="{1,3}")
_QWEN2 = _WORDS_TO_SPACES.format(contractions=_CONTRACTIONS, digits="")
_UPPER, _LOWER = r"\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}", r"\p{Ll}\p{Lm}\p{Lo}\p{M}"
_TEKKEN = (
    rf"[^\r\n\p{{L}}\p{{N}}]?[{_UPPER}]*[{_LOWER}]+|[^\r\n\p{{L}}\p{{N}}]?[{_UPPER}]+[{_LOWER}]*"
    r"|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class _PreTokenizer:
    """How a text is split before merges.

    By an expression, or by GPT-2's own. `splits_digits`: before that each digit is split off.
    `ignores_merges`: a word that is a token is not split. `adds_bos` holds where the file does not tell.
    `is_composed`: texts are normalized to NFC first.
    """

    expression: str | None = None
    splits_digits: bool = False
    ignores_merges: bool = False
    adds_bos: bool = False
    is_composed: bool = False


_GPT2 = _PreTokenizer()
_DIGITS = _PreTokenizer(splits_digits=True)
_LLAMA_BPE = _PreTokenizer(expression=_LLAMA3, ignores_merges=True, adds_bos=True)
PRE_TOKENIZERS: Final = {
    "llama-bpe": _LLAMA_BPE,
    "llama3": _LLAMA_BPE,
    "llama-v3": _LLAMA_BPE,
    "falcon3": _LLAMA_BPE,
    "smaug-bpe": _PreTokenizer(expression=_LLAMA3),
    "qwen2": _PreTokenizer(expression=_QWEN2, is_composed=True),
    "deepseek-r1-qwen": _PreTokenizer(expression=_QWEN2),
    "megrez": _PreTokenizer(expression=_QWEN2),
    "tekken": _PreTokenizer(expression=_TEKKEN, ignores_merges=True, adds_bos=True),
    "smollm": _DIGITS,
    "starcoder": _DIGITS,
    "refact": _DIGITS,
    "gpt-2": _GPT2,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenizerFiles:
    """The contents of tokenizer.json and tokenizer_config.json, and of generation_config.json."""

    tokenizer: str
    tokenizer_config: dict[str, Any]
    generation_config: dict[str, Any]
    num_tokens: int


def convert_tokenizer(file: GgufFile) -> TokenizerFiles:
    """Return the tokenizer of a file. Raises ConversionFailed."""
    vocabulary = _Vocabulary(file)
    tokenizer = _build(file, vocabulary)
    special = {
        f"{name}_token": vocabulary.tokens[number]
        for name in ("bos", "eos", "unknown", "padding")
        if (number := vocabulary.special(name)) is not None
    }
    names = {"unknown_token": "unk_token", "padding_token": "pad_token"}
    config = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        **{names.get(name, name): token for name, token in special.items()},
        "add_bos_token": _adds(file, "bos", vocabulary),
        "add_eos_token": _adds(file, "eos", vocabulary),
        "clean_up_tokenization_spaces": False,
    }
    if (template := _templates(file)) is not None:
        config["chat_template"] = template
    ends = vocabulary.end_ids()
    generation: dict[str, Any] = {"eos_token_id": ends} if ends else {}
    if (start := vocabulary.special("bos")) is not None:
        generation["bos_token_id"] = start
    return TokenizerFiles(
        tokenizer=tokenizer,
        tokenizer_config=config,
        generation_config=generation | _sampling(file),
        num_tokens=len(vocabulary.tokens),
    )


class _Vocabulary:
    """The tokens of a file, by id, with their types."""

    def __init__(self, file: GgufFile) -> None:
        self._file = file
        tokens = file.items("tokenizer.ggml.tokens", str)
        if not tokens:
            raise file.wrong("tokenizer.ggml.tokens is empty")
        # llama.cpp's name for it.
        self.tokens = [token or f"[EMPTY_{number}]" for number, token in enumerate(tokens)]
        self.ids = {token: number for number, token in enumerate(self.tokens)}
        if len(self.ids) != len(self.tokens):
            raise file.wrong("tokenizer.ggml.tokens has a token twice")
        self.kinds = (
            file.items("tokenizer.ggml.token_type", int, length=len(tokens))
            if "tokenizer.ggml.token_type" in file.metadata
            else [_NORMAL] * len(tokens)
        )

    def special(self, name: str) -> int | None:
        """Return the id of a special token of the file, or None."""
        key = f"tokenizer.ggml.{name}_token_id"
        # Gemma's converter, among others, means none by a number outside of the vocabulary.
        number = self._file.integer(key, -1, least=-1)
        return number if 0 <= number < len(self.tokens) else None

    def end_ids(self) -> list[int]:
        """Return the ids that end an answer, that of the file first."""
        named = [self.special(name) for name in ("eos", "eot", "eom")]
        # Ollama's own files have a list.
        if "tokenizer.ggml.eos_token_ids" in self._file.metadata:
            listed = self._file.items("tokenizer.ggml.eos_token_ids", int)
            named += [number for number in listed if 0 <= number < len(self.tokens)]
        known = [
            self.ids[token]
            for token in _END_TOKENS
            if token in self.ids and self.kinds[self.ids[token]] in (_CONTROL, _USER_DEFINED)
        ]
        return list(dict.fromkeys(number for number in (*named, *known) if number is not None))

    def added(self) -> list[tuple[str, bool]]:
        """Return tokens that are found first, and whether they are special."""
        return [
            (token, kind != _USER_DEFINED)
            for token, kind in zip(self.tokens, self.kinds, strict=True)
            if kind in (_CONTROL, _USER_DEFINED, _UNKNOWN)
        ]


def _build(file: GgufFile, vocabulary: _Vocabulary) -> str:
    """Return tokenizer.json."""
    from tokenizers import AddedToken

    model = file.text("tokenizer.ggml.model")
    if model not in ("gpt2", "llama"):
        raise file.wrong(
            f"the tokenizer {model!r} is not supported; supported are 'gpt2' (byte-level BPE) and 'llama' "
            "(SentencePiece)"
        )
    try:
        tokenizer = _byte_level(file, vocabulary) if model == "gpt2" else _sentencepiece(file, vocabulary)
        tokenizer.add_tokens(
            [
                # Ollama's own files have tokens of several spaces as SentencePiece stores them.
                AddedToken(text, special=special, normalized=_SPACE in text and not special)
                for text, special in vocabulary.added()
            ]
        )
        if (around := _around(file, vocabulary)) is not None:
            tokenizer.post_processor = around
        return str(tokenizer.to_str())
    except Exception as error:
        # The library raises plain exceptions.
        if type(error) in (Exception, ValueError):
            reason = " ".join(str(error).split())[:300]
            raise file.wrong(f"its tokenizer cannot be built: {reason}") from None
        raise


def _around(file: GgufFile, vocabulary: _Vocabulary) -> Any:
    """Return the step that adds special tokens, None for no tokens."""
    from tokenizers.processors import TemplateProcessing

    start, end = (
        [vocabulary.tokens[number]]
        if _adds(file, name, vocabulary) and (number := vocabulary.special(name)) is not None
        else []
        for name in ("bos", "eos")
    )
    if not start and not end:
        return None
    single, second = [*start, "$A", *end], [*start, "$B", *end]
    return TemplateProcessing(
        single=single,
        pair=[*single, *(f"{piece}:1" for piece in second)],
        special_tokens=[(token, vocabulary.ids[token]) for token in {*start, *end}],
    )


def _byte_level(file: GgufFile, vocabulary: _Vocabulary) -> Any:
    from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers

    name = file.text("tokenizer.ggml.pre", "missing")
    pre = PRE_TOKENIZERS.get(name)
    if pre is None:
        raise file.wrong(
            f"the pre-tokenizer {name!r} (tokenizer.ggml.pre) is not supported; supported are "
            f"{', '.join(PRE_TOKENIZERS)}"
        )
    merges = []
    for merge in file.items("tokenizer.ggml.merges", str):
        # A token may begin with a space.
        place = merge.find(" ", 1)
        if place < 0:
            raise file.wrong(f"tokenizer.ggml.merges has {merge[:100]!r}, which is no pair")
        merges.append((merge[:place], merge[place + 1 :]))
    tokenizer = Tokenizer(models.BPE(vocabulary.ids, merges, ignore_merges=pre.ignores_merges))
    if pre.is_composed:
        tokenizer.normalizer = normalizers.NFC()
    steps: list[Any] = [pre_tokenizers.Digits(individual_digits=True)] if pre.splits_digits else []
    if pre.expression is not None:
        steps.append(pre_tokenizers.Split(Regex(pre.expression), "isolated"))
    steps.append(pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=pre.expression is None))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(steps) if len(steps) > 1 else steps[0]
    tokenizer.decoder = decoders.ByteLevel()
    return tokenizer


def _sentencepiece(file: GgufFile, vocabulary: _Vocabulary) -> Any:
    """Return SentencePiece's BPE, with merges in the order of scores."""
    from tokenizers import Tokenizer, decoders, models, normalizers

    if file.flag("tokenizer.ggml.remove_extra_whitespaces", False):
        raise file.wrong("a SentencePiece tokenizer that removes spaces is not supported")
    scores = file.items("tokenizer.ggml.scores", int | float, length=len(vocabulary.tokens))  # type: ignore[arg-type]
    unknown = vocabulary.special("unknown")
    has_bytes = any(kind == _BYTE for kind in vocabulary.kinds)
    tokenizer = Tokenizer(
        models.BPE(
            vocabulary.ids,
            _merges(file, vocabulary, scores),
            unk_token=None if unknown is None else vocabulary.tokens[unknown],
            fuse_unk=True,
            byte_fallback=has_bytes,
        )
    )
    # Ollama's own files of Gemma do not tell.
    is_gemma = file.text("general.architecture").startswith("gemma")
    has_prefix = file.flag("tokenizer.ggml.add_space_prefix", not is_gemma)
    replace = normalizers.Replace(" ", _SPACE)
    tokenizer.normalizer = (
        normalizers.Sequence([normalizers.Prepend(_SPACE), replace]) if has_prefix else replace
    )
    steps: list[Any] = [decoders.Replace(_SPACE, " "), decoders.ByteFallback(), decoders.Fuse()]
    tokenizer.decoder = decoders.Sequence([*steps, *([decoders.Strip(" ", 1, 0)] if has_prefix else [])])
    return tokenizer


def _merges(file: GgufFile, vocabulary: _Vocabulary, scores: Sequence[float]) -> list[tuple[str, str]]:
    """Return the pairs of tokens that make a token, best score first."""
    normal = {
        token: number for token, number in vocabulary.ids.items() if vocabulary.kinds[number] == _NORMAL
    }
    found = []
    for token, number in normal.items():
        if len(token) > _MAX_TOKEN_CHARACTERS:
            raise file.wrong(f"the token {number} has {len(token):,} characters")
        for place in range(1, len(token)):
            first, second = normal.get(token[:place]), normal.get(token[place:])
            if first is not None and second is not None:
                found.append((-scores[number], first, second, token[:place], token[place:]))
    found.sort(key=lambda merge: merge[:3])
    return [(first, second) for *_, first, second in found]


def _adds(file: GgufFile, name: str, vocabulary: _Vocabulary) -> bool:
    """Whether a text begins, or ends, with a special token."""
    pre = PRE_TOKENIZERS.get(file.text("tokenizer.ggml.pre", ""))
    is_sentencepiece = file.metadata.get("tokenizer.ggml.model") == "llama"
    usual = name == "bos" and (is_sentencepiece or (pre is not None and pre.adds_bos))
    return vocabulary.special(name) is not None and file.flag(f"tokenizer.ggml.add_{name}_token", usual)


def _templates(file: GgufFile) -> str | list[Mapping[str, str]] | None:
    """Return the chat template, or several by name."""
    key = "tokenizer.chat_template"
    templates = {
        name.removeprefix(f"{key}.") if name != key else "default": file.text(name)
        for name in file.metadata
        if name == key or name.startswith(f"{key}.")
    }
    if sum(len(template.encode()) for template in templates.values()) > _MAX_TEMPLATE_BYTES:
        raise file.wrong(f"its chat template is larger than {_MAX_TEMPLATE_BYTES} bytes")
    if set(templates) <= {"default"}:
        return templates.get("default")
    return [{"name": name, "template": template} for name, template in templates.items()]


def _sampling(file: GgufFile) -> dict[str, Any]:
    """Return the sampling parameters that the file recommends."""
    keys = {
        "temp": "temperature",
        "top_k": "top_k",
        "top_p": "top_p",
        "min_p": "min_p",
        "penalty_repeat": "repetition_penalty",
    }
    found = {
        name: file.number(f"general.sampling.{key}")
        for key, name in keys.items()
        if f"general.sampling.{key}" in file.metadata
    }
    if "top_k" in found:
        found["top_k"] = int(found["top_k"])
    return {"do_sample": True, **found} if found else {}
