"""The tokenizer of the demo model.

Byte-level BPE with Qwen's special tokens, made for copying. Words never include their leading space, and
digits and punctuation are single tokens, so a word has the same token ids at every position and copying it is
copying tokens. Long literal strings of the chat template and of tool schemas are single (not special) tokens,
which makes a tool prompt a third as long.
"""

from collections.abc import Iterable

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers, trainers

SPECIAL_TOKENS = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
MARKERS = ("<think>", "</think>", "<tool_call>", "</tool_call>", "<tool_response>", "</tool_response>")
_TEMPLATE_STRINGS = (
    "# Tools\n\nThese functions can be called:\n<tools>\n",
    (
        '</tools>\n\nA call is JSON between two tags:\n<tool_call>\n{"name": <name>, "arguments": '
        "<arguments>}\n</tool_call>"
    ),
    '{"type": "function", "function": {"name": "',
    '", "description": "',
    ', "description": "',
    '"description": "',
    '", "parameters": {"type": "object", "properties": {"',
    '", "parameters": {"type": "object", "required": ["',
    '"], "properties": {"',
    '": {"type": "string"',
    '": {"type": "integer"',
    '": {"type": "number"',
    '": {"type": "boolean"',
    '": {"title": "',
    '": {"description": "',
    '", "type": "',
    '"}, "',
    '}, "required": ["',
    '"}}, "required": ["',
    '"], "additionalProperties": false}}}',
    '"]}}}',
    '"}}}}}',
    '], "additionalProperties": false}, "strict": true}}',
    '"]}, "strict": true}}',
    ', "enum": ["',
    '{"name": "',
    '", "arguments": {"',
    '": "',
    '", "',
    '"}}',
    "}}",
)
_PIECES = r"\p{L}+|\p{N}|\s|[^\s\p{L}\p{N}]"


def train_tokenizer(texts: Iterable[str], *, vocab_size: int) -> Tokenizer:
    """Train a byte-level BPE tokenizer.

    The last ids are special tokens, markers and template strings.
    """
    added = [AddedToken(token, special=True, normalized=False) for token in SPECIAL_TOKENS]
    added += [AddedToken(token, special=False, normalized=False) for token in (*MARKERS, *_TEMPLATE_STRINGS)]
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(_PIECES), behavior="isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocab_size - len(added),
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    tokenizer.add_tokens(added)
    return tokenizer
