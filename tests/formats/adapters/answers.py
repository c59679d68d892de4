"""Answers that a grammar allows, matched token by token.

As in the engine.
"""

import random
import re
from collections.abc import Sequence

import numpy as np
from llguidance import LLMatcher, LLTokenizer
from tokenizers import AddedToken, Tokenizer

from mlxctl.formats.adapters.grammar.answer_grammar import AnswerGrammars
from mlxctl.formats.adapters.prompt import Prompt
from mlxctl.formats.adapters.tokens.vocabulary import Vocabulary
from mlxctl.formats.parsers import ThinkingParser, ToolParser
from mlxctl.ir import GenerationRequest
from mlxctl.library.demo import MODEL_DIR

_TEXT = (MODEL_DIR / "tokenizer.json").read_text()
_TAG = r"<[^<>]*>|\[[A-Z_/]+\]"
_STOP = "<|im_end|>"
_NOTHING = Prompt(text="")
_MAX_STEPS = 300


class Answers:
    """The answers that a request allows for a model with these formats.

    With `has_marks` the formats' markers are tokens; else they are plain text.
    """

    def __init__(self, tools: ToolParser, thinking: ThinkingParser, *, has_marks: bool = True) -> None:
        tokenizer = Tokenizer.from_str(_TEXT)
        texts = tools.markers | thinking.markers if has_marks else thinking.markers
        # Text inside a token that resembles a tag is no tag; the matcher's tokenizer has no such tokens.
        odd = "|".join(
            re.escape(mark) for mark in tools.inner_markers if "<" in mark and not re.fullmatch(_TAG, mark)
        )
        marks = sorted(
            {mark for text in texts for mark in re.findall(_TAG, re.sub(odd, "", text) if odd else text)}
        )
        tokenizer.add_tokens([AddedToken(mark, special=True) for mark in marks])
        self._stops = [tokenizer.token_to_id(_STOP)]
        self._tokenizer = LLTokenizer(tokenizer.to_str(), eos_token=self._stops)
        self._decoder = tokenizer
        vocabulary = Vocabulary(tokenizer)
        self._grammars = AnswerGrammars(
            vocabulary,
            tools=tools,
            thinking=thinking,
            force_call=tools.forced_prefix,
            stop_token_ids=frozenset(self._stops),
        )
        self._asked: tuple[tuple[GenerationRequest, Prompt, str], LLMatcher] | None = None

    def allows(
        self, answer: str, request: GenerationRequest, prompt: Prompt = _NOTHING, start: str = ""
    ) -> bool:
        """Whether the model may generate this and end there."""
        matcher = self._matcher(request, prompt, start).deep_copy()
        tokens = self._tokenizer.tokenize_str(answer, parse_special=True)
        return matcher.try_consume_tokens(tokens) == len(tokens) and matcher.is_accepting()

    def guides(self, request: GenerationRequest) -> bool:
        """Whether anything is enforced."""
        return self._grammars.guidance(request, _NOTHING, grammar_start="") is not None

    def some(self, request: GenerationRequest, chance: random.Random, closers: Sequence[str]) -> str | None:
        """Return an allowed answer, drawn token by token; None if too long.

        `closers` are texts that end something: they are drawn more often, so that answers end.
        """
        matcher = self._new_matcher(request, _NOTHING, "")
        endings = [self._tokenizer.tokenize_str(text, parse_special=True) for text in closers]
        token_ids: list[int] = []
        for step in range(_MAX_STEPS):
            if matcher.is_stopped() or (matcher.is_accepting() and chance.random() < 0.5):
                return self._decoder.decode(token_ids, skip_special_tokens=False)
            tokens = [self._drawn(matcher, chance)]
            if chance.random() < 0.2 + step / 40:
                fitting = [
                    ending for ending in endings if ending and matcher.validate_tokens(ending) == len(ending)
                ]
                tokens = chance.choice(fitting) if fitting else tokens
            if tokens[0] in self._stops:
                return self._decoder.decode(token_ids, skip_special_tokens=False)
            assert matcher.consume_tokens(tokens), matcher.get_error()
            token_ids += tokens
        return None

    def _drawn(self, matcher: LLMatcher, chance: random.Random) -> int:
        bits = np.unpackbits(np.frombuffer(matcher.compute_bitmask(), dtype=np.uint8), bitorder="little")
        allowed = np.nonzero(bits)[0]
        assert len(allowed), f"nothing can follow: {matcher.get_error()}"
        return int(chance.choice(allowed))

    def _matcher(self, request: GenerationRequest, prompt: Prompt, start: str) -> LLMatcher:
        """Return the matcher of a request, whose state is its start."""
        asked = (request, prompt, start)
        if self._asked is None or self._asked[0] != asked:
            self._asked = (asked, self._new_matcher(*asked))
        return self._asked[1]

    def _new_matcher(self, request: GenerationRequest, prompt: Prompt, start: str) -> LLMatcher:
        guidance = self._grammars.guidance(request, prompt, grammar_start=start)
        assert guidance is not None
        matcher = LLMatcher(self._tokenizer, guidance.grammar)
        assert not matcher.is_error(), matcher.get_error()
        if guidance.grammar_start:
            assert matcher.consume_tokens(self._tokenizer.tokenize_str(guidance.grammar_start))
        return matcher
