"""The adapter of one model: from requests to token ids."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from mlxctl.adapters.answer_reader import NO_THINKING, NO_TOOLS, AnswerReader
from mlxctl.adapters.cache_breakpoints import breakpoint_prefix, num_common
from mlxctl.adapters.embedding_texts import EmbeddingTexts
from mlxctl.adapters.family_profile import FamilyProfile
from mlxctl.adapters.grammar.answer_grammar import AnswerGrammars, refuse_early_end
from mlxctl.adapters.media.images import open_image_placement
from mlxctl.adapters.parser_choice import (
    find_thinking_parser,
    find_tool_parser,
    known_thinking_parser,
    known_tool_parser,
    with_native_formats,
)
from mlxctl.adapters.prepared import PreparedInput, PromptTokens
from mlxctl.adapters.processor import find_hidden_ids
from mlxctl.adapters.prompt import Prompt, PromptWriter
from mlxctl.adapters.request_defaults import RequestDefaults
from mlxctl.adapters.sampling import final_sampling, sampling_defaults
from mlxctl.adapters.templates.agent_headers import without_agent_headers
from mlxctl.adapters.templates.chat_template import ChatTemplate
from mlxctl.adapters.templates.result_images import shown_images
from mlxctl.adapters.templates.shape import TemplateShape, probe_shape
from mlxctl.adapters.tokens.encoded_segments import EncodedSegment, EncodedSegments, OpenSegment
from mlxctl.adapters.tokens.stop_tokens import find_stop_tokens
from mlxctl.adapters.tokens.vocabulary import Vocabulary, load_vocabulary
from mlxctl.adapters.tone_curves import with_tone_curve
from mlxctl.errors import BrokenModel, ContextTooLong, InvalidRequest
from mlxctl.ir import (
    AdapterVerdict,
    DeliveryVerdict,
    GenerationRequest,
    ModelCapabilities,
    ModelFacts,
    SamplingParams,
)
from mlxctl.parsers import ToolParser, tool_parser

UNKNOWN_CAPABILITIES = ModelCapabilities()
NO_DEFAULTS = RequestDefaults()

_INJECTED_PARSER_ID = "hermes_json"
# Shorter texts are tokenized before they are rejected, so that the error has the exact number of tokens.
_LONG_CHARS = 1 << 17


class ModelAdapter(AnswerReader):
    """Writes one model's prompts and parses its answers.

    Thread-safe: nothing changes after creation except the segments that were encoded before.

    `profile` holds what is known of the family beside the model's files; `capabilities` were measured before
    and override both. `verdict` is what was detected. Raises BrokenModel when tokenizer or template cannot be
    used. A model without a template cannot chat.
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
        self.name = name
        self.request_defaults = request_defaults
        self.facts = facts
        self.profile = profile
        self.vocabulary: Vocabulary = load_vocabulary(facts)
        self._segments = EncodedSegments(self.vocabulary)
        recipe = facts.embedding
        self._embedding_texts = (
            None if recipe is None else EmbeddingTexts(recipe, self.vocabulary, model=name)
        )
        self.vocabulary_size = _vocabulary_size(facts, self.vocabulary)
        self._vision, self._vision_problem = open_image_placement(facts, self.vocabulary)
        default = None if facts.chat_template is None else ChatTemplate(facts, facts.chat_template)
        # Everything about tools depends on the template for requests with tools.
        template = ChatTemplate(facts, facts.tool_template) if default and facts.tool_template else default
        placeholder = None if self._vision is None else self._vision.placeholder
        shape = TemplateShape() if template is None else probe_shape(template, placeholder=placeholder)
        delivery = self._find_delivery(template, shape, capabilities)
        chosen = self._choose_tools(template, shape, delivery, capabilities)
        self._tools = with_native_formats(chosen, self.profile.tool_parser_ids, template, self.vocabulary)
        self._thinking = known_thinking_parser(capabilities) or find_thinking_parser(default, self.vocabulary)
        self._writer = None if template is None else self._make_writer(template, shape, delivery)
        self._plain_writer = self._writer
        if default is not None and default is not template:
            plain_shape = probe_shape(default, placeholder=placeholder)
            self._plain_writer = self._make_writer(default, plain_shape, "none")
        self.supports_tools = self._writer is not None and self._writer.supports_tools
        self.supports_thinking = self._writer is not None and self._writer.supports_thinking
        ends = find_stop_tokens(
            facts,
            self.vocabulary,
            template,
            vocabulary_size=self.vocabulary_size,
            end_tokens=self.profile.end_tokens,
            after_call=shape.after_call,
            markers=self._tools.markers | self._thinking.markers,
        )
        super().__init__(
            facts,
            name=name,
            tokens=self.vocabulary,
            vocabulary_size=self.vocabulary_size,
            tools=self._tools,
            thinking=self._thinking,
            hidden_ids={
                (tools.id, thinking.id): find_hidden_ids(self.vocabulary, tools, thinking)
                for tools in (self._tools, NO_TOOLS)
                for thinking in (self._thinking, NO_THINKING)
            },
            supports_tools=self.supports_tools,
            supports_thinking=self.supports_thinking,
            verdict=self._create_verdict(shape, delivery),
            stop_token_ids=ends - {self.vocabulary.id_of(self._thinking.closer)},
        )
        self._defaults = sampling_defaults(facts)
        self._grammars = AnswerGrammars(
            self.vocabulary,
            tools=self._tools,
            thinking=self._thinking,
            force_call=self._tools.forced_prefix if self._writer is None else self._writer.force_call,
            stop_token_ids=self.stop_token_ids,
        )

    def _find_delivery(
        self, template: ChatTemplate | None, shape: TemplateShape, capabilities: ModelCapabilities
    ) -> DeliveryVerdict:
        if template is None or capabilities.tools is False:
            return "none"
        if capabilities.tool_delivery is not None:
            return capabilities.tool_delivery
        return "template" if shape.takes_tools else "injected" if self.profile.injected_parser_id else "none"

    def _choose_tools(
        self,
        template: ChatTemplate | None,
        shape: TemplateShape,
        delivery: DeliveryVerdict,
        capabilities: ModelCapabilities,
    ) -> ToolParser:
        if delivery == "none":
            return NO_TOOLS
        if parser := known_tool_parser(capabilities):
            return parser
        if delivery == "injected":
            return tool_parser(self.profile.injected_parser_id or _INJECTED_PARSER_ID)
        return find_tool_parser(self.profile.tool_parser_ids, template, shape, self.vocabulary)

    def _make_writer(
        self, template: ChatTemplate, shape: TemplateShape, delivery: DeliveryVerdict
    ) -> PromptWriter:
        return PromptWriter(
            template,
            shape,
            self._tools,
            self._thinking,
            profile=self.profile,
            injects_tools=delivery == "injected",
            vision=self._vision,
            vision_problem=self._vision_problem,
        )

    def _create_verdict(self, shape: TemplateShape, delivery: DeliveryVerdict) -> AdapterVerdict:
        return AdapterVerdict(
            family=self.facts.family or "unknown",
            tool_parser_id=self._tools.id,
            thinking_parser_id=self._thinking.id,
            tool_delivery=delivery if self.supports_tools else "none",
            can_force_tools=self.can_force_tools,
            thinking_switch=None if self._writer is None else self._writer.thinking_switch,
            supports_thinking_toggle=self.supports_thinking and self._thinking.supports_toggle,
            opens_thinking=self._writer is not None and self._writer.opens_thinking(),
            keeps_thinking=shape.keeps_thinking,
            keeps_turn_thinking=bool(shape.thinking_field),
            takes_system=shape.takes_system,
            takes_later_system=shape.takes_later_system,
            takes_repeated_roles=shape.takes_repeated_roles,
            takes_tools=shape.takes_tools,
            takes_calls=shape.takes_calls,
            takes_parallel_calls=shape.takes_parallel_calls,
            takes_text_beside_calls=shape.takes_text_beside_calls,
            takes_results=shape.takes_results,
            takes_images=self._vision is not None,
            vision_problem=self._vision_problem,
        )

    @property
    def can_force_tools(self) -> bool:
        """Whether a tool call can be forced."""
        return self._writer is not None and self._writer.can_force_tools

    def reader(self) -> AnswerReader:
        """Return the part that parses answers, for another process."""
        return AnswerReader(
            self.facts,
            name=self.name,
            tokens=self.vocabulary.table(self.vocabulary_size),
            vocabulary_size=self.vocabulary_size,
            tools=self._tools,
            thinking=self._thinking,
            hidden_ids=self._hidden_ids,
            supports_tools=self.supports_tools,
            supports_thinking=self.supports_thinking,
            verdict=self.verdict,
            stop_token_ids=self.stop_token_ids,
        )

    def read_grammar_vocabulary(self) -> None:
        """Prepare the vocabulary for grammars. Blocks for a second or two."""
        self._grammars.read_vocabulary()

    def normalized(self, request: GenerationRequest) -> GenerationRequest:
        """Return the request with the server-wide options applied.

        Idempotent.
        """
        defaults, messages = self.request_defaults, request.messages
        if defaults.strips_agent_headers:
            messages = without_agent_headers(messages)
        sampling = with_tone_curve(request.sampling, defaults.tone_curve)
        return replace(request, messages=messages, sampling=sampling)

    def prepare_input(self, request: GenerationRequest) -> PreparedInput:
        """Convert a chat request to token ids and final sampling values.

        Takes milliseconds to seconds: call it in a worker.

        Raises InvalidRequest for what the model cannot do, ContextTooLong when the prompt leaves no room for
        an answer.
        """
        request = self.normalized(request)
        sampling = self._sampling(request)
        prompt = self._write_if_short_enough(request)
        token_ids, prompt_tail, opened = self._encode(prompt, request)
        inputs = self._insert_images(token_ids, request)
        guidance = self._grammars.guidance(request, prompt, grammar_start=prompt_tail[len(prompt.tail) :])
        refuse_early_end(request, guidance)
        return PreparedInput(
            token_ids=inputs.token_ids,
            sampling=sampling,
            stop_token_ids=self.stop_token_ids,
            max_tokens=self._max_tokens(request, inputs.token_ids),
            prompt_tail=prompt_tail,
            opened=opened,
            guidance=guidance,
            images=inputs.images,
            num_long_ttl_tokens=self._num_long_ttl_tokens(request, inputs.token_ids),
        )

    def prepare_text(self, request: GenerationRequest, prompt: str | tuple[int, ...]) -> PreparedInput:
        """Convert one raw prompt of a completion request.

        Raises as `prepare_input` does.
        """
        request = self.normalized(request)
        sampling = self._sampling(request)
        if isinstance(prompt, str):
            self._check_lower_bound([prompt])
        token_ids = tuple(self.vocabulary.encode_whole_text(prompt)) if isinstance(prompt, str) else prompt
        self._check_ids(token_ids, "prompt")
        echo = prompt if isinstance(prompt, str) else self.vocabulary.decode(prompt)
        guidance = self._grammars.text_guidance(request.constraint)
        refuse_early_end(request, guidance)
        return PreparedInput(
            token_ids=token_ids,
            sampling=sampling,
            stop_token_ids=self.stop_token_ids,
            max_tokens=self._max_tokens(request, token_ids),
            echo=echo if request.echo else "",
            scores_prompt=request.scores_prompt,
            guidance=guidance,
        )

    def prepare_embedding(
        self,
        text: str | tuple[int, ...],
        param: str,
        *,
        prompt_name: str | None = None,
        may_cut: bool = False,
    ) -> tuple[int, ...]:
        """Convert a text or token ids to an embedding model's input.

        `param` is the field in the request. The other arguments are those of EmbeddingTexts. Raises
        InvalidRequest and ContextTooLong.
        """
        assert self._embedding_texts is not None, "only an embedding model embeds"
        token_ids = self._embedding_texts.token_ids(text, prompt_name=prompt_name, may_cut=may_cut)
        self._check_ids(token_ids, param)
        return token_ids

    def count_prompt_tokens(self, request: GenerationRequest) -> int:
        """Count a prompt's tokens, whatever its length.

        Raises InvalidRequest as `prepare_input` does.
        """
        return len(self.prompt_tokens(request).token_ids)

    def prompt_text(self, request: GenerationRequest) -> str:
        """Return the text of a request's prompt.

        Raises InvalidRequest as `prepare_input` does.
        """
        return self._write(self.normalized(request)).text

    def prompt_tokens(self, request: GenerationRequest) -> PromptTokens:
        """Return a request's prompt, whatever its length.

        Raises InvalidRequest as `prepare_input` does.
        """
        request = self.normalized(request)
        return self._insert_images(self._encode(self._write(request), request)[0], request)

    def fitting_prompt_tokens(self, request: GenerationRequest) -> PromptTokens:
        """Return a request's prompt; raises InvalidRequest and ContextTooLong as `prepare_input` does."""
        prompt = self._insert_images(self._encode(self._write_if_short_enough(request), request)[0], request)
        self._max_tokens(request, prompt.token_ids)
        return prompt

    def store_answer(self, prepared: PreparedInput, generated_ids: Sequence[int]) -> None:
        """Store the ids of a finished answer.

        Its text is encoded to the same ids when a client sends it back.
        """
        if prepared.opened is not None:
            self.store_segments(self.answer_segments(prepared.opened, generated_ids))

    def answer_segments(self, opened: OpenSegment, generated_ids: Sequence[int]) -> list[EncodedSegment]:
        """Return the segments of a finished answer that are worth storing.

        For `store_segments`, here or in another process.
        """
        return list(self._segments.segments_of(opened, generated_ids))

    def store_segments(self, segments: Iterable[EncodedSegment]) -> None:
        """Store segments: their text is encoded to these ids again."""
        self._segments.store(segments)

    def _write(self, request: GenerationRequest) -> Prompt:
        if self._writer is None:
            raise InvalidRequest(f"model {self.name!r} has no chat template and cannot chat", param="model")
        return self._writer_for(request).write(request)

    def _writer_for(self, request: GenerationRequest) -> PromptWriter:
        """Return the template writer for a request with or without tools."""
        has_tools = request.tools and request.tool_choice.mode != "none"
        writer = self._writer if has_tools else self._plain_writer
        assert writer is not None, "the model has a chat template"
        return writer

    def _write_if_short_enough(self, request: GenerationRequest) -> Prompt:
        """Write a prompt; raises ContextTooLong where its length alone excludes it.

        The user's text is checked before the template is rendered, the prompt before it is tokenized.
        """
        # A template may trim messages, but drops no text.
        self._check_lower_bound(
            (message.text for message in request.messages if message.role == "user"), may_lose_spaces=True
        )
        prompt = self._write(request)
        self._check_lower_bound([prompt.text])
        return prompt

    def _encode(self, prompt: Prompt, request: GenerationRequest) -> tuple[tuple[int, ...], str, OpenSegment]:
        """Return the token ids of a prompt, its tail and open segment.

        The open segment is the one that the answer continues.

        Returns its ids, its tail and the segment that the answer continues. Ids without a row in the
        embedding table raise InvalidRequest.
        """
        whole_ids, opened = self._segments.encode(prompt.text + prompt.opening, request.cache.namespace)
        token_ids, num_opening_chars = self.vocabulary.split_at_opening(whole_ids, prompt.opening)
        self._check_ids(token_ids, "messages")
        opened = opened.shortened(
            num_chars=len(prompt.opening) - num_opening_chars, num_tokens=len(whole_ids) - len(token_ids)
        )
        return tuple(token_ids), prompt.tail + prompt.opening[:num_opening_chars], opened

    def _insert_images(self, token_ids: tuple[int, ...], request: GenerationRequest) -> PromptTokens:
        images = shown_images(request.messages)
        # A model without vision has rejected images while the conversation was written.
        if self._vision is None or not images:
            return PromptTokens(token_ids=token_ids)
        return self._vision.insert(token_ids, images)

    def _num_long_ttl_tokens(self, request: GenerationRequest, token_ids: Sequence[int]) -> int:
        """Count the tokens up to the cache breakpoint.

        All of them where the template cannot render the conversation up to there.
        """
        long_ttl = request.cache.long_ttl
        # A breakpoint on tools that are not in the prompt covers nothing.
        if (
            long_ttl is None
            or self._writer is None
            or not (long_ttl.num_messages or request.tool_choice.mode != "none")
        ):
            return 0
        prefix_request = breakpoint_prefix(request, long_ttl)
        try:
            text = self._writer_for(request).write_without_generation_prompt(prefix_request)
        except InvalidRequest:
            # The template cannot render a conversation that ends there.
            return len(token_ids)
        return num_common(
            token_ids,
            self._insert_images(self._encode(Prompt(text=text), request)[0], prefix_request).token_ids,
        )

    def _check_ids(self, token_ids: Sequence[int], param: str) -> None:
        if not token_ids:
            raise InvalidRequest("the prompt is empty", param=param)
        if (highest := max(token_ids)) >= self.vocabulary_size:
            last = self.vocabulary_size - 1
            message = (
                f"the prompt has token {highest}, "
                f"but model {self.name!r} has no weights for tokens beyond {last}"
            )
            raise InvalidRequest(message, param=param)

    def _check_lower_bound(self, texts: Iterable[str], *, may_lose_spaces: bool = False) -> None:
        """Raise ContextTooLong for long texts that cannot fit, without tokenizing.

        The error's number of tokens is then a lower bound.
        """
        long = [text for text in texts if text]
        if sum(map(len, long)) < _LONG_CHARS:
            return
        lower_bound = sum(
            self.vocabulary.token_lower_bound.of(text, may_lose_spaces=may_lose_spaces) for text in long
        )
        if lower_bound > self.facts.context_length:
            raise ContextTooLong(num_prompt_tokens=lower_bound, context_length=self.facts.context_length)

    def _sampling(self, request: GenerationRequest) -> SamplingParams:
        return final_sampling(
            request.sampling,
            self._defaults,
            vocabulary_size=self.vocabulary_size,
            breaker_ids=self.vocabulary.ids_containing,
        )

    def _max_tokens(self, request: GenerationRequest, token_ids: Sequence[int]) -> int:
        rest, num_needed = self.facts.context_length - len(token_ids), 0 if request.max_tokens == 0 else 1
        if rest < num_needed:
            raise ContextTooLong(num_prompt_tokens=len(token_ids), context_length=self.facts.context_length)
        return rest if request.max_tokens is None else min(request.max_tokens, rest)


def _vocabulary_size(facts: ModelFacts, vocabulary: Vocabulary) -> int:
    """Return how many token ids the model has weights for.

    Tokenizers may have fewer entries, or more.
    """
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
