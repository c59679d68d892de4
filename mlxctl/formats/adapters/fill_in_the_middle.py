"""Prompts that ask for the text between a prefix and a suffix.

Each family of code models has special tokens for that. Sources: the model cards of Qwen2.5-Coder,
StarCoder 2, CodeLlama, DeepSeek-Coder, Codestral, CodeGemma, Granite, Seed-Coder and GLM-4.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from mlxctl.formats.adapters.tokens.vocabulary import Vocabulary
from mlxctl.ir.errors import InvalidRequest

_PREFIX, _SUFFIX = object(), object()
# Special tokens in the order of the prompt, around prefix and suffix.
_LAYOUTS: tuple[tuple[str | object, ...], ...] = (
    ("<|fim_prefix|>", _PREFIX, "<|fim_suffix|>", _SUFFIX, "<|fim_middle|>"),
    ("<fim_prefix>", _PREFIX, "<fim_suffix>", _SUFFIX, "<fim_middle>"),
    ("<fim-prefix>", _PREFIX, "<fim-suffix>", _SUFFIX, "<fim-middle>"),
    ("<｜fim▁begin｜>", _PREFIX, "<｜fim▁hole｜>", _SUFFIX, "<｜fim▁end｜>"),
    ("▁<PRE>", _PREFIX, "▁<SUF>", _SUFFIX, "▁<MID>"),
    ("<|code_prefix|>", _PREFIX, "<|code_suffix|>", _SUFFIX, "<|code_middle|>"),
    ("<[fim-suffix]>", _SUFFIX, "<[fim-prefix]>", _PREFIX, "<[fim-middle]>"),
    ("[SUFFIX]", _SUFFIX, "[PREFIX]", _PREFIX),
)
# Models write these after the middle.
_ENDS = (
    "<|endoftext|>", "<|fim_pad|>", "<|file_sep|>", "<|repo_name|>", "<fim_pad>", "<file_sep>",
    "<|file_separator|>", "▁<EOT>", "<EOT>",
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class MiddlePrompt:
    """Token ids of a prompt, and what ends its answer.

    `stop_token_ids` do so besides the model's own.
    """

    token_ids: tuple[int, ...]
    stop_token_ids: frozenset[int]


class FillInTheMiddle:
    """Writes prompts with the tokens of one vocabulary."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        self._vocabulary = vocabulary
        self._layout = next((layout for layout in _LAYOUTS if self._has_all(layout)), ())

    @property
    def is_supported(self) -> bool:
        """Whether the vocabulary has fill-in-the-middle tokens."""
        return bool(self._layout)

    def prompt(self, prefix: str, suffix: str, *, param: str = "suffix") -> MiddlePrompt:
        """Return the prompt for the text between prefix and suffix. Raises InvalidRequest.

        `param` is the request's field of the suffix, for errors.
        """
        if not self._layout:
            raise InvalidRequest(
                f"this model's tokenizer has no fill-in-the-middle tokens, which {param} needs; use a code "
                "model",
                param=param,
            )
        token_ids: list[int] = self._vocabulary.encode_whole_text("")
        ends = set(self._ids(_ENDS))
        for part in self._layout:
            if part is _PREFIX or part is _SUFFIX:
                token_ids += self._vocabulary.encode(prefix if part is _PREFIX else suffix)
            elif isinstance(part, str):
                ids = self._ids([part])
                token_ids += ids
                ends.update(ids)
        return MiddlePrompt(token_ids=tuple(token_ids), stop_token_ids=frozenset(ends))

    def _has_all(self, layout: Sequence[object]) -> bool:
        tokens = [part for part in layout if isinstance(part, str)]
        return len(self._ids(tokens)) == len(tokens)

    def _ids(self, tokens: Sequence[str]) -> list[int]:
        found = map(self._vocabulary.id_of, tokens)
        return [token_id for token_id in found if token_id is not None]
