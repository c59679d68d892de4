"""Small tokenizers of every kind, built in code."""

from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

SPECIAL = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
MARKERS = ("<think>", "</think>", "<tool_call>", "</tool_call>")
_SENTENCES = (
    "The quick brown fox jumps over the lazy dog.",
    'I will call {"name": "get_weather", "arguments": {"city": "Paris"}} now.\n',
    "Grüße aus Zürich, 你好 und Zoë 👩‍👩‍👧!",
    "the answer to the question is the answer",
) * 4  # fmt: skip


def _finish(tokenizer: Tokenizer, markers: tuple[str, ...] = MARKERS) -> Tokenizer:
    tokenizer.add_tokens([AddedToken(token, special=True, normalized=False) for token in SPECIAL])
    tokenizer.add_tokens(
        [AddedToken(token, special=False, normalized=False) for token in (*markers, "two words\n", "naïve")]
    )
    return tokenizer


def byte_level(markers: tuple[str, ...] = MARKERS) -> Tokenizer:
    """Return a tokenizer like those of Qwen and Llama 3.

    A character outside ASCII is several tokens.
    """
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=300, initial_alphabet=alphabet, show_progress=False)
    tokenizer.train_from_iterator(_SENTENCES, trainer)
    return _finish(tokenizer, markers)


def sentencepiece(num_leading_spaces: int = 1) -> Tokenizer:
    """Return a tokenizer like those of Llama 2, Mistral and Gemma.

    `▁` for spaces, bytes for unknown characters. Llama 2 and Mistral drop one leading space, Gemma none.
    """
    pieces = ["<unk>", *(f"<0x{byte:02X}>" for byte in range(256))]
    pieces += [*"▁abcdefghijklmnopqrstuvwxyzABCTPI.,!{}:\"'", "▁the", "▁▁", "th", "▁t", "he"]
    vocabulary = {piece: index for index, piece in enumerate(dict.fromkeys(pieces))}
    merges = [("t", "h"), ("▁", "t"), ("h", "e"), ("▁t", "he"), ("▁", "▁")]
    tokenizer = Tokenizer(
        models.BPE(vocab=vocabulary, merges=merges, unk_token="<unk>", fuse_unk=True, byte_fallback=True)
    )
    tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    steps = [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()]
    if num_leading_spaces:
        steps.append(decoders.Strip(" ", num_leading_spaces, 0))
    tokenizer.decoder = decoders.Sequence(steps)
    return _finish(tokenizer)


def metaspace() -> Tokenizer:
    """Return a tokenizer like T5's, which decodes by position."""
    tokenizer = Tokenizer(
        models.Unigram([("<unk>", 0.0), *((char, -2.0) for char in "▁abcdehilnorstuw"), ("▁the", -1.0)], 0)
    )
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer.decoder = decoders.Metaspace()
    return _finish(tokenizer)


def wordpiece() -> Tokenizer:
    """Return a tokenizer like BERT's: spaces come from between the tokens."""
    pieces = ["[UNK]", "the", "fox", "answer", "##s", "##ing", "jump", ".", "a", "##b"]
    tokenizer = Tokenizer(
        models.WordPiece({piece: index for index, piece in enumerate(pieces)}, unk_token="[UNK]")
    )
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece(cleanup=False)
    return _finish(tokenizer)
