"""Token ids of prompts, and of the inputs of embedding models."""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from mlxctl.formats.adapters.formats import ModelFormats
from mlxctl.formats.adapters.prepared import PromptTokens
from mlxctl.formats.adapters.prompt import Prompt, PromptWriter
from mlxctl.formats.adapters.templates.result_images import shown_audio, shown_images
from mlxctl.formats.adapters.tokens.control_texts import MARK, ControlTexts
from mlxctl.formats.adapters.tokens.encoded_segments import EncodedSegments, OpenSegment
from mlxctl.formats.adapters.tokens.vocabulary import Vocabulary
from mlxctl.ir import CacheBreakpoint, EmbeddingRecipe, GenerationRequest, ModelFacts, ToolChoice, ToolSpec
from mlxctl.ir.errors import ContextTooLong, InvalidRequest, PracticalContextExceeded
from mlxctl.ir.timed_phases import timed

# Shorter texts are tokenized before they are rejected, so that the error has the exact number of tokens.
_LONG_CHARS = 1 << 17
# Makes the prompt differ right after a cache breakpoint.
_OTHER_TOOL = ToolSpec(name="~", description="")


class PromptEncoder:
    """Writes, tokenizes and measures the prompts of one model.

    Thread-safe. `segments` holds the segments that were encoded before. Requests are normalized already.
    """

    def __init__(
        self,
        facts: ModelFacts,
        formats: ModelFormats,
        vocabulary: Vocabulary,
        *,
        name: str,
        vocabulary_size: int,
    ) -> None:
        self._controls = ControlTexts(
            vocabulary.added.values(),
            template=f"{facts.chat_template}{facts.tool_template}",
            markers=formats.tools.markers | formats.thinking.markers,
        )
        self.segments = EncodedSegments(vocabulary, mark_answer=self._controls.marked_answer)
        self._formats = formats
        self._vocabulary = vocabulary
        self._name = name
        self._vocabulary_size = vocabulary_size
        self._context_length = facts.context_length
        self._default_max_tokens = facts.default_max_tokens
        self._context_limit = facts.context_limit

    def write(self, request: GenerationRequest) -> Prompt:
        """Return the text of a prompt, with its marks. Raises InvalidRequest."""
        if self._formats.writer is None:
            raise InvalidRequest(f"model {self._name!r} has no chat template and cannot chat", param="model")
        marked, mark = self._controls.marked(request)
        prompt = self._writer_for(request).write(marked)
        return replace(prompt, text=prompt.text.replace(mark, MARK)) if mark else prompt

    def write_if_short_enough(self, request: GenerationRequest) -> Prompt:
        """Write a prompt; raises ContextTooLong where its length alone excludes it.

        The user's text is checked before the template is rendered, the prompt before it is tokenized.
        """
        # A template may trim messages, but drops no text.
        self.check_lower_bound(
            (message.text for message in request.messages if message.role == "user"), may_lose_spaces=True
        )
        prompt = self.write(request)
        self.check_lower_bound([shown_text(prompt)])
        return prompt

    def encode(self, prompt: Prompt, request: GenerationRequest) -> tuple[tuple[int, ...], str, OpenSegment]:
        """Return the token ids of a prompt, its tail and open segment.

        The open segment is the one that the answer continues. Ids without a row in the embedding table raise
        InvalidRequest.
        """
        whole_ids, opened = self.segments.encode(prompt.text + prompt.opening, request.cache.namespace)
        token_ids, num_opening_chars = self._vocabulary.split_at_opening(whole_ids, prompt.opening)
        self.check_ids(token_ids, "messages")
        opened = opened.shortened(
            num_chars=len(prompt.opening) - num_opening_chars, num_tokens=len(whole_ids) - len(token_ids)
        )
        return tuple(token_ids), prompt.tail + prompt.opening[:num_opening_chars], opened

    def tokens(self, prompt: Prompt, request: GenerationRequest) -> PromptTokens:
        """Return the tokens of a prompt with its media. Raises InvalidRequest."""
        return self.insert_media(self.encode(prompt, request)[0], request)

    def insert_media(self, token_ids: tuple[int, ...], request: GenerationRequest) -> PromptTokens:
        """Replace the cells of the request's images and audio by their tokens."""
        prompt = PromptTokens(token_ids=token_ids)
        # A model that takes none has rejected them while the conversation was written.
        if self._formats.vision is not None and (images := shown_images(request.messages)):
            with timed("images"):
                prompt = self._formats.vision.insert(token_ids, images)
        if self._formats.audio is not None and (clips := shown_audio(request.messages)):
            with timed("audio"):
                prompt = self._formats.audio.insert(prompt, clips)
        return prompt

    def num_long_ttl_tokens(self, request: GenerationRequest, token_ids: Sequence[int]) -> int:
        """Count the tokens up to the cache breakpoint.

        If the template cannot render the conversation up to there, these are all tokens of the prompt.
        """
        long_ttl = request.cache.long_ttl
        # A breakpoint on tools that are not in the prompt covers nothing.
        if (
            long_ttl is None
            or self._formats.writer is None
            or not (long_ttl.num_messages or request.tool_choice.mode != "none")
        ):
            return 0
        prefix_request = _breakpoint_prefix(request, long_ttl)
        marked, mark = self._controls.marked(prefix_request)
        try:
            text = self._writer_for(request).write_without_generation_prompt(marked)
        except InvalidRequest:
            # The template cannot render a conversation that ends there.
            return len(token_ids)
        prefix_ids = self.encode(Prompt(text=text.replace(mark, MARK) if mark else text), request)[0]
        return _num_common(token_ids, self.insert_media(prefix_ids, prefix_request).token_ids)

    def check_ids(self, token_ids: Sequence[int], param: str) -> None:
        """Raise InvalidRequest for no ids, or ids without weights."""
        if not token_ids:
            raise InvalidRequest("the prompt is empty", param=param)
        if (highest := max(token_ids)) >= self._vocabulary_size:
            last = self._vocabulary_size - 1
            message = (
                f"the prompt has token {highest}, "
                f"but model {self._name!r} has no weights for tokens beyond {last}"
            )
            raise InvalidRequest(message, param=param)

    def check_lower_bound(self, texts: Iterable[str], *, may_lose_spaces: bool = False) -> None:
        """Raise ContextTooLong for long texts that cannot fit, without tokenizing.

        The error's number of tokens is then a lower bound.
        """
        long = [text for text in texts if text]
        if sum(map(len, long)) < _LONG_CHARS:
            return
        bound = self._vocabulary.token_lower_bound
        num_tokens = sum(bound.of(text, may_lose_spaces=may_lose_spaces) for text in long)
        if num_tokens > self._context_length:
            raise self._too_long(num_tokens, self._context_length)

    def context_length(self, request: GenerationRequest) -> int:
        """Return the limit of prompt and answer together, in tokens."""
        return min(self._context_length, request.max_context_tokens or self._context_length)

    def max_tokens(self, request: GenerationRequest, token_ids: Sequence[int]) -> int:
        """Return how many tokens the answer may have. Raises ContextTooLong."""
        context_length = self.context_length(request)
        rest, num_needed = context_length - len(token_ids), 0 if request.max_tokens == 0 else 1
        if rest < num_needed:
            raise self._too_long(len(token_ids), context_length)
        limit = self._default_max_tokens if request.max_tokens is None else request.max_tokens
        return rest if limit is None else min(limit, rest)

    def _too_long(self, num_tokens: int, context_length: int) -> ContextTooLong:
        """Return the error of a prompt beyond `context_length`.

        The limit may be the request's own.
        """
        limit = self._context_limit if context_length == self._context_length else None
        kind = PracticalContextExceeded if limit is not None and limit.is_memory else ContextTooLong
        return kind(
            num_prompt_tokens=num_tokens, context_length=context_length, reason=limit.reason if limit else ""
        )

    def num_kept_tokens(self, request: GenerationRequest) -> int | None:
        """Return the number of used tokens at a raw prompt's end.

        None stands for all. Raises InvalidRequest.
        """
        limit = request.max_prompt_tokens
        if limit is None or limit > 0:
            return limit
        num_kept = self.context_length(request) - (1 if request.max_tokens is None else request.max_tokens)
        if limit == 0 or num_kept < 1:
            message = f"truncate_prompt_tokens is {limit}, which leaves no token of the prompt"
            raise InvalidRequest(message, param="truncate_prompt_tokens")
        return num_kept

    def _writer_for(self, request: GenerationRequest) -> PromptWriter:
        """Return the template writer for a request with or without tools."""
        has_tools = request.tools and request.tool_choice.mode != "none"
        writer = self._formats.writer if has_tools else self._formats.plain_writer
        assert writer is not None, "the model has a chat template"
        return writer


def shown_text(prompt: Prompt) -> str:
    """Return the text of a prompt without its marks."""
    return prompt.text.replace(MARK, "")


def _breakpoint_prefix(request: GenerationRequest, long_ttl: CacheBreakpoint) -> GenerationRequest:
    """Return a request whose prompt is the same up to the breakpoint."""
    if not long_ttl.num_messages:
        choice = request.tool_choice if request.tool_choice.mode == "none" else ToolChoice()
        return replace(request, tools=(*request.tools[: long_ttl.num_tools], _OTHER_TOOL), tool_choice=choice)
    *before, last = request.messages[: long_ttl.num_messages]
    parts = last.parts[: len(last.parts) - long_ttl.num_excluded_parts]
    return replace(request, messages=(*before, replace(last, parts=parts)))


def _num_common(one: Sequence[int], other: Sequence[int]) -> int:
    """Return the number of equal leading tokens."""
    pairs = enumerate(zip(one, other, strict=False))
    return next((index for index, (first, second) in pairs if first != second), min(len(one), len(other)))


class EmbeddingTexts:
    """Converts texts to token ids by one model's recipe. Thread-safe."""

    def __init__(self, recipe: EmbeddingRecipe, vocabulary: Vocabulary, *, model: str) -> None:
        self._recipe = recipe
        self._vocabulary = vocabulary
        self._model = model

    def token_ids(
        self,
        text: str | tuple[int, ...],
        *,
        prompt_name: str | None,
        may_cut: bool,
        max_tokens: int | None = None,
    ) -> tuple[int, ...]:
        """Return the model's input; token ids are used unchanged.

        A text follows the prompt `prompt_name`, by default the model's own. Raises InvalidRequest for an
        unknown name, and ContextTooLong for an input longer than the model's maximum; with `may_cut` a text
        is truncated instead, but keeps the tokens that the tokenizer appends; with `max_tokens` to that
        length.
        """
        limit = self._recipe.max_length
        if max_tokens is not None:
            if not 1 <= max_tokens <= limit:
                message = (
                    f"truncate_prompt_tokens is {max_tokens}, but model {self._model!r} takes 1 to {limit}"
                )
                raise InvalidRequest(message, param="truncate_prompt_tokens")
            may_cut, limit = True, max_tokens
        if isinstance(text, str):
            written = self._prompt(prompt_name) + text
            if not may_cut and len(written) >= _LONG_CHARS:
                self._check_lower_bound(written)
            ids, num_end_tokens = self._vocabulary.encode_with_ends(
                written.lower() if self._recipe.is_uncased else written
            )
        else:
            ids, num_end_tokens = list(text), 0
        if len(ids) > limit:
            if not may_cut or num_end_tokens >= limit:
                raise ContextTooLong(num_prompt_tokens=len(ids), context_length=limit)
            ids = ids[: limit - num_end_tokens] + ids[len(ids) - num_end_tokens :]
        return tuple(ids)

    def document_ids(self, document: str, *, may_cut: bool, max_tokens: int | None) -> tuple[int, ...]:
        """Return the model's input of a document, truncated to `max_tokens`.

        Raises as `token_ids` does.
        """
        if max_tokens is not None and max_tokens < self._recipe.max_length:
            return self.token_ids(document, prompt_name=None, may_cut=True, max_tokens=max_tokens)
        return self.token_ids(document, prompt_name=None, may_cut=may_cut)

    def pair_ids(
        self, query: str, document: str, *, may_cut: bool = False, max_document_tokens: int | None = None
    ) -> tuple[int, ...]:
        """Return a cross-encoder's input.

        The document is truncated to `max_document_tokens`. Raises ContextTooLong for a pair longer than the
        model's maximum; with `may_cut` the document is truncated instead.
        """
        limit = self._recipe.max_length
        cuts = may_cut or max_document_tokens is not None
        uncut = query if cuts else query + document
        if len(uncut) >= _LONG_CHARS:
            self._check_lower_bound(uncut)
        ids = self._vocabulary.encode_pair(
            query, document, max_second=max_document_tokens, max_tokens=limit if may_cut else None
        )
        if len(ids) > limit:
            raise ContextTooLong(num_prompt_tokens=len(ids), context_length=limit)
        return tuple(ids)

    def _check_lower_bound(self, text: str) -> None:
        """Raise ContextTooLong for a text that cannot fit, without tokenizing."""
        if (lower_bound := self._vocabulary.token_lower_bound.of(text)) > self._recipe.max_length:
            raise ContextTooLong(num_prompt_tokens=lower_bound, context_length=self._recipe.max_length)

    def _prompt(self, name: str | None) -> str:
        if name is None:
            return self._recipe.prompt
        if name not in self._recipe.prompts:
            names = ", ".join(sorted(self._recipe.prompts)) or "none"
            raise InvalidRequest(
                f"model {self._model!r} has no prompt {name!r}; it has: {names}", param="prompt_name"
            )
        return self._recipe.prompts[name]
