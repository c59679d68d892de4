"""The adapter of one model: from requests to token ids."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from mlxctl.formats.adapters.answer_reader import NO_THINKING, NO_TOOLS, AnswerReader
from mlxctl.formats.adapters.family_profile import FamilyProfile
from mlxctl.formats.adapters.fill_in_the_middle import FillInTheMiddle, MiddlePrompt
from mlxctl.formats.adapters.formats import detect_formats
from mlxctl.formats.adapters.grammar.answer_grammar import AnswerGrammars, refuse_early_end
from mlxctl.formats.adapters.prepared import NormalizedRequest, PreparedInput, PromptTokens
from mlxctl.formats.adapters.processor import find_hidden_ids
from mlxctl.formats.adapters.prompt_encoder import EmbeddingTexts, PromptEncoder, shown_text
from mlxctl.formats.adapters.request_defaults import NO_SAMPLING, RequestDefaults
from mlxctl.formats.adapters.sampling import (
    FALLBACK_SAMPLING,
    final_sampling,
    sampling_defaults,
    sampling_values,
    shapes_sampling,
)
from mlxctl.formats.adapters.templates.agent_headers import without_agent_headers
from mlxctl.formats.adapters.tokens.encoded_segments import EncodedSegment, OpenSegment
from mlxctl.formats.adapters.tokens.vocabulary import Vocabulary, load_vocabulary
from mlxctl.formats.adapters.tone_curves import with_tone_curve
from mlxctl.ir import (
    DefaultSampling,
    GenerationRequest,
    Message,
    ModelCapabilities,
    ModelFacts,
    SamplingOptions,
    SamplingParams,
    ToolChoice,
)
from mlxctl.ir.errors import BrokenModel
from mlxctl.ir.timed_phases import timed

UNKNOWN_CAPABILITIES = ModelCapabilities()
NO_DEFAULTS = RequestDefaults()


class ModelAdapter(AnswerReader):
    """Writes one model's prompts and parses its answers.

    Thread-safe: nothing changes after creation except the segments that were encoded before. `profile` has
    the facts of the model's family that are not in its files. `capabilities` come from a probe or an
    override, and take precedence over profile and files. `verdict` is what was detected. Raises BrokenModel
    when tokenizer or template cannot be used. A model without a template cannot chat.
    """

    def __init__(
        self,
        facts: ModelFacts,
        *,
        name: str,
        profile: FamilyProfile,
        capabilities: ModelCapabilities = UNKNOWN_CAPABILITIES,
        request_defaults: RequestDefaults = NO_DEFAULTS,
    ) -> None:
        self.request_defaults = request_defaults
        if request_defaults.thinking is not None:
            profile = replace(profile, thinks_by_default=request_defaults.thinking)
        self.vocabulary: Vocabulary = load_vocabulary(facts)
        recipe = facts.embedding
        self._embedding_texts = (
            None if recipe is None else EmbeddingTexts(recipe, self.vocabulary, model=name)
        )
        size = _vocabulary_size(facts, self.vocabulary)
        formats = detect_formats(
            facts,
            self.vocabulary,
            vocabulary_size=size,
            profile=profile,
            capabilities=capabilities,
            max_image_pixels=request_defaults.max_image_pixels,
            max_video_frames=request_defaults.max_video_frames,
        )
        self._defaults = sampling_defaults(facts)
        self._falls_back = request_defaults.uses_fallback_sampling and not shapes_sampling(self._defaults)
        self._formats = formats = replace(
            formats, verdict=replace(formats.verdict, sampling=self._default_sampling())
        )
        self.can_force_tools = formats.can_force_tools
        self._encoder = PromptEncoder(facts, formats, self.vocabulary, name=name, vocabulary_size=size)
        super().__init__(
            facts,
            name=name,
            tokens=self.vocabulary,
            vocabulary_size=size,
            formats=formats,
            hidden_ids={
                (tools.id, thinking.id): find_hidden_ids(self.vocabulary, tools, thinking)
                for tools in (formats.tools, NO_TOOLS)
                for thinking in (formats.thinking, NO_THINKING)
            },
        )
        self._fill_in_the_middle = FillInTheMiddle(self.vocabulary)
        writer = formats.writer
        self._grammars = AnswerGrammars(
            self.vocabulary,
            tools=formats.tools,
            thinking=formats.thinking,
            force_call=formats.tools.forced_prefix if writer is None else writer.force_call,
            stop_token_ids=formats.stop_token_ids,
        )

    def reader(self) -> AnswerReader:
        """Return the part that parses answers, for another process."""
        return AnswerReader(
            self.facts,
            name=self.name,
            tokens=self.vocabulary.table(self.vocabulary_size),
            vocabulary_size=self.vocabulary_size,
            formats=self._formats,
            hidden_ids=self._hidden_ids,
        )

    def read_grammar_vocabulary(self) -> None:
        """Prepare the vocabulary for grammars. Blocks for a second or two."""
        self._grammars.read_vocabulary()

    def normalized(self, request: GenerationRequest) -> NormalizedRequest:
        """Return the request with the options that hold for all requests applied.

        Clips are decoded, which may take seconds. Once for each request: the other methods take what this
        returns. Raises InvalidRequest for clips.
        """
        defaults, messages = self.request_defaults, request.messages
        if defaults.strips_agent_headers:
            messages = without_agent_headers(messages)
        if self._formats.vision is not None:
            messages = self._formats.vision.with_clips(messages)
        sampling = defaults.sampling_of(with_tone_curve(request.sampling, defaults.tone_curve))
        choice = request.tool_choice
        if not self.supports_tools and choice.mode == "auto" and _has_calls(messages):
            # A model that calls nothing by itself still answers after the calls that were forced before.
            choice = ToolChoice(mode="none")
        return NormalizedRequest(
            replace(
                request,
                messages=messages,
                sampling=sampling,
                tool_choice=choice,
                max_tokens=defaults.max_tokens_of(request),
            )
        )

    def context_length(self, request: GenerationRequest) -> int:
        """Return the limit of prompt and answer together, in tokens."""
        return self._encoder.context_length(request)

    def prepare_input(self, request: NormalizedRequest) -> PreparedInput:
        """Convert a chat request to token ids and final sampling values.

        Takes milliseconds to seconds: call it in a worker.

        Raises InvalidRequest for what the model cannot do, ContextTooLong when the prompt leaves no room for
        an answer.
        """
        sampling = self._sampling(request)
        with timed("template"):
            prompt = self._encoder.write_if_short_enough(request)
        with timed("tokenize"):
            token_ids, prompt_tail, opened = self._encoder.encode(prompt, request)
        inputs = self._encoder.insert_media(token_ids, request)
        guidance = self._grammars.guidance(request, prompt, grammar_start=prompt_tail[len(prompt.tail) :])
        refuse_early_end(request, guidance)
        return PreparedInput(
            token_ids=inputs.token_ids,
            sampling=sampling,
            stop_token_ids=self.stop_token_ids,
            max_tokens=self._encoder.max_tokens(request, inputs.token_ids),
            prompt_tail=prompt_tail,
            opened=opened,
            guidance=guidance,
            images=inputs.images,
            num_long_ttl_tokens=self._encoder.num_long_ttl_tokens(request, inputs.token_ids),
        )

    def prepare_text(self, request: NormalizedRequest, prompt: str | tuple[int, ...]) -> PreparedInput:
        """Convert one raw prompt of a completion request.

        Raises as `prepare_input` does.
        """
        sampling = self._sampling(request)
        if isinstance(prompt, str) and request.max_prompt_tokens is None:
            self._encoder.check_lower_bound([prompt, request.suffix or ""])
        stop_token_ids = self.stop_token_ids
        if request.suffix is not None and isinstance(prompt, str):
            middle = self._middle_prompt(request, prompt, request.suffix)
            token_ids, stop_token_ids = middle.token_ids, stop_token_ids | middle.stop_token_ids
        else:
            token_ids = (
                tuple(self.vocabulary.encode_whole_text(prompt)) if isinstance(prompt, str) else prompt
            )
        self._encoder.check_ids(token_ids, "prompt")
        num_kept = None if request.suffix is not None else self._encoder.num_kept_tokens(request)
        if num_kept is not None and len(token_ids) > num_kept:
            start = 0 if request.keeps_prompt_start else len(token_ids) - num_kept
            prompt = token_ids = token_ids[start : start + num_kept]
        echo = prompt if isinstance(prompt, str) else self.vocabulary.decode(prompt)
        guidance = self._grammars.text_guidance(request.constraint)
        refuse_early_end(request, guidance)
        return PreparedInput(
            token_ids=token_ids,
            sampling=sampling,
            stop_token_ids=stop_token_ids,
            max_tokens=self._encoder.max_tokens(request, token_ids),
            echo=echo if request.echo else "",
            guidance=guidance,
        )

    def _middle_prompt(self, request: GenerationRequest, prefix: str, suffix: str) -> MiddlePrompt:
        """Return the prompt that asks for the text between prefix and suffix.

        Of one that is too long, the prefix loses its beginning, or its end.
        """
        middle = self._fill_in_the_middle.prompt(prefix, suffix, param=request.suffix_param)
        num_kept = self._encoder.num_kept_tokens(request)
        if num_kept is None or len(middle.token_ids) <= num_kept:
            return middle
        prefix_ids = self.vocabulary.encode(prefix)
        num_left = max(0, len(prefix_ids) - (len(middle.token_ids) - num_kept))
        start = 0 if request.keeps_prompt_start else len(prefix_ids) - num_left
        rest = self.vocabulary.decode(prefix_ids[start : start + num_left], keeps_special=True)
        return self._fill_in_the_middle.prompt(rest, suffix, param=request.suffix_param)

    def prepare_embedding(
        self,
        text: str | tuple[int, ...],
        param: str,
        *,
        prompt_name: str | None = None,
        may_cut: bool = False,
        max_tokens: int | None = None,
    ) -> tuple[int, ...]:
        """Convert a text or token ids to an embedding model's input.

        `param` is the field in the request. The other arguments are those of EmbeddingTexts. Raises
        InvalidRequest and ContextTooLong.
        """
        assert self._embedding_texts is not None, "only an embedding model embeds"
        token_ids = self._embedding_texts.token_ids(
            text, prompt_name=prompt_name, may_cut=may_cut, max_tokens=max_tokens
        )
        self._encoder.check_ids(token_ids, param)
        return token_ids

    def prompt_for(self, purpose: str | None) -> str | None:
        """Return the name of the embedding prompt for a purpose, if any."""
        if purpose is None or self.facts.embedding is None:
            return None
        names = (purpose, purpose.removeprefix("search_"), f"search_{purpose}")
        return next((name for name in names if name in self.facts.embedding.prompts), None)

    @property
    def scores_pairs(self) -> bool:
        """Whether the model is a cross-encoder."""
        return self.facts.embedding is not None and self.facts.embedding.scores_pairs

    def prepare_document(
        self, document: str, param: str, *, may_cut: bool, max_tokens: int | None
    ) -> tuple[int, ...]:
        """Convert a document to an embedding model's input, truncated to `max_tokens`.

        Raises as `prepare_embedding` does.
        """
        assert self._embedding_texts is not None, "only an embedding model embeds"
        token_ids = self._embedding_texts.document_ids(document, may_cut=may_cut, max_tokens=max_tokens)
        self._encoder.check_ids(token_ids, param)
        return token_ids

    def prepare_pair(
        self, query: str, document: str, *, may_cut: bool = False, max_document_tokens: int | None = None
    ) -> tuple[int, ...]:
        """Convert a query and a document to a cross-encoder's input.

        Options and errors are those of EmbeddingTexts.
        """
        assert self._embedding_texts is not None, "only an embedding model scores"
        return self._embedding_texts.pair_ids(
            query, document, may_cut=may_cut, max_document_tokens=max_document_tokens
        )

    def count_prompt_tokens(self, request: NormalizedRequest) -> int:
        """Count a prompt's tokens, whatever its length.

        Raises InvalidRequest as `prepare_input` does.
        """
        return len(self.prompt_tokens(request).token_ids)

    def prompt_text(self, request: NormalizedRequest) -> str:
        """Return the text of a request's prompt.

        Raises InvalidRequest as `prepare_input` does.
        """
        return shown_text(self._encoder.write(request))

    def prompt_tokens(self, request: NormalizedRequest) -> PromptTokens:
        """Return a request's prompt, whatever its length.

        Raises InvalidRequest as `prepare_input` does.
        """
        return self._encoder.tokens(self._encoder.write(request), request)

    def fitting_prompt_tokens(self, request: NormalizedRequest) -> PromptTokens:
        """Return a request's prompt; raises InvalidRequest and ContextTooLong as `prepare_input` does."""
        prompt = self._encoder.tokens(self._encoder.write_if_short_enough(request), request)
        self._encoder.max_tokens(request, prompt.token_ids)
        return prompt

    def answer_segments(self, opened: OpenSegment, generated_ids: Sequence[int]) -> list[EncodedSegment]:
        """Return the segments of a finished answer that are worth storing.

        For `store_segments`, here or in another process: the answer's text is then encoded to the same ids
        when a client sends it back.
        """
        return list(self._encoder.segments.segments_of(opened, generated_ids))

    def store_segments(self, segments: Iterable[EncodedSegment]) -> None:
        """Store segments: their text is encoded to these ids again."""
        self._encoder.segments.store(segments)

    def _sampling(self, request: GenerationRequest) -> SamplingParams:
        falls_back = self._falls_back and not shapes_sampling(request.sampling)
        return final_sampling(
            request.sampling,
            _merged(FALLBACK_SAMPLING, self._defaults) if falls_back else self._defaults,
            vocabulary_size=self.vocabulary_size,
            breaker_ids=self.vocabulary.ids_containing,
        )

    def _default_sampling(self) -> DefaultSampling:
        """Return the values of a request that sets none, and their source."""
        server = self.request_defaults.sampling_of(NO_SAMPLING)
        values = sampling_values(_merged(server, self._defaults))
        if shapes_sampling(server):
            return DefaultSampling(source="server", values=values)
        if shapes_sampling(self._defaults):
            return DefaultSampling(source="model", values=values)
        if self._falls_back:
            return DefaultSampling(source="fallback", values=sampling_values(FALLBACK_SAMPLING) | values)
        return DefaultSampling(source="none", values=values)


def _merged(first: SamplingOptions, second: SamplingOptions) -> SamplingOptions:
    """Return the first options, unset ones as in the second."""
    return RequestDefaults(sampling=second).sampling_of(first)


def _has_calls(messages: Iterable[Message]) -> bool:
    return any(message.tool_calls or message.tool_results for message in messages)


def _vocabulary_size(facts: ModelFacts, vocabulary: Vocabulary) -> int:
    """Return how many token ids the model has weights for.

    Tokenizers may have fewer entries, or more. 0 for a speech model: its ids stay in the engine.
    """
    if facts.speech is not None:
        return 0
    text_config = facts.config.get("text_config")
    sources = [text_config, facts.config] if isinstance(text_config, Mapping) else [facts.config]
    sizes = [size for source in sources if (size := source.get("vocab_size")) is not None]
    size = sizes[0] if sizes else vocabulary.size
    if not isinstance(size, int) or isinstance(size, bool) or size < 1:
        raise BrokenModel(
            facts.path,
            f"vocab_size in config.json of {facts.path.name!r} must be a positive integer, not {size!r}",
        )
    return size
