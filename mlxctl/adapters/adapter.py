"""What a model is like: how it is asked, and how its answer is read. One instance per loaded model."""

from collections.abc import Iterable, Mapping, Sequence

from mlxctl.adapters.answer_reader import NO_THINKING, NO_TOOLS, Abilities, AnswerReader
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
from mlxctl.adapters.sampling import final_sampling, sampling_defaults
from mlxctl.adapters.templates.chat_template import ChatTemplate
from mlxctl.adapters.templates.result_images import shown_images
from mlxctl.adapters.templates.shape import TemplateShape, probe_shape
from mlxctl.adapters.templates.written_calls import written_calls
from mlxctl.adapters.tokens.encoded_segments import EncodedSegment, EncodedSegments, OpenSegment
from mlxctl.adapters.tokens.stop_tokens import find_stop_tokens
from mlxctl.adapters.tokens.vocabulary import Vocabulary, load_vocabulary
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

NOTHING_KNOWN = ModelCapabilities()

_INJECTED_PARSER_ID = "hermes_json"
# Texts of fewer characters are tokenized before it is said that they are too long, so that the number is the
# right one.
_QUICK_CHARS = 1 << 17


class ModelAdapter(AnswerReader):
    """A loaded model: writes its prompts, and reads its answers.

    Thread-safe: nothing changes after it was made, but what texts are known.

    `habits` are what is known of its family beside its files; `capabilities` are what was found out before,
    and win over both. `verdict` is what the model was taken for. Raises BrokenModel when tokenizer or
    template cannot be used. A model without a template can be made, but not chatted with.
    """

    def __init__(
        self,
        facts: ModelFacts,
        *,
        name: str,
        profile: FamilyProfile,
        capabilities: ModelCapabilities = NOTHING_KNOWN,
    ) -> None:
        self.name = name
        self.facts = facts
        self.profile = profile
        self.vocabulary: Vocabulary = load_vocabulary(facts)
        self._known_text = EncodedSegments(self.vocabulary)
        recipe = facts.embedding
        self._embedding_texts = (
            None if recipe is None else EmbeddingTexts(recipe, self.vocabulary, model=name)
        )
        self.vocabulary_size = _vocabulary_size(facts, self.vocabulary)
        self._vision, self._vision_problem = open_image_placement(facts, self.vocabulary)
        template = None if facts.chat_template is None else ChatTemplate(facts, facts.chat_template)
        placeholder = None if self._vision is None else self._vision.placeholder
        shape = TemplateShape() if template is None else probe_shape(template, placeholder=placeholder)
        delivery = self._find_delivery(template, shape, capabilities)
        chosen = self._choose_tools(template, shape, delivery, capabilities)
        self._tools = with_native_formats(chosen, self.profile.tool_parser_ids, template, self.vocabulary)
        self._thinking = known_thinking_parser(capabilities) or find_thinking_parser(
            template, self.vocabulary
        )
        self._writer = None if template is None else self._make_writer(template, shape, delivery)
        ends = find_stop_tokens(
            facts,
            self.vocabulary,
            template,
            vocabulary_size=self.vocabulary_size,
            end_tokens=self.profile.end_tokens,
            behind_call=shape.behind_call,
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
            abilities=Abilities(
                tools=self.supports_tools,
                thinking=self.supports_thinking,
                verdict=self._judge(shape, delivery),
            ),
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
        self, template: ChatTemplate | None, shape: TemplateShape, known: ModelCapabilities
    ) -> DeliveryVerdict:
        if template is None or known.tools is False:
            return "none"
        if known.tool_delivery is not None:
            return known.tool_delivery
        return "template" if shape.takes_tools else "injected" if self.profile.injected_parser_id else "none"

    def _choose_tools(
        self,
        template: ChatTemplate | None,
        shape: TemplateShape,
        delivery: DeliveryVerdict,
        known: ModelCapabilities,
    ) -> ToolParser:
        if delivery == "none":
            return NO_TOOLS
        if parser := known_tool_parser(known):
            return parser
        if delivery == "injected":
            return tool_parser(self.profile.injected_parser_id or _INJECTED_PARSER_ID)
        return find_tool_parser(self.profile.tool_parser_ids, template, shape, self.vocabulary)

    def _make_writer(
        self, template: ChatTemplate, shape: TemplateShape, delivery: DeliveryVerdict
    ) -> PromptWriter:
        written = written_calls(self._tools.id) if delivery == "injected" else None
        return PromptWriter(
            template,
            shape,
            self._tools,
            self._thinking,
            profile=self.profile,
            written=written,
            vision=self._vision,
            vision_problem=self._vision_problem,
        )

    def _judge(self, shape: TemplateShape, delivery: DeliveryVerdict) -> AdapterVerdict:
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
    def supports_tools(self) -> bool:
        """Whether tools can be offered and calls be understood."""
        return self._writer is not None and self._writer.supports_tools

    @property
    def supports_thinking(self) -> bool:
        """Whether the model thinks aloud."""
        return self._writer is not None and self._writer.supports_thinking

    @property
    def can_force_tools(self) -> bool:
        """Whether a tool call can be forced."""
        return self._writer is not None and self._writer.can_force_tools

    def reader(self) -> AnswerReader:
        """Return the half that reads answers, to be handed to another process."""
        return AnswerReader(
            self.facts,
            name=self.name,
            tokens=self.vocabulary.table(self.vocabulary_size),
            vocabulary_size=self.vocabulary_size,
            tools=self._tools,
            thinking=self._thinking,
            hidden_ids=self._hidden_ids,
            abilities=self.abilities,
            stop_token_ids=self.stop_token_ids,
        )

    def read_grammar_vocabulary(self) -> None:
        """Make ready to compile grammars, which takes a second or two. Blocks."""
        self._grammars.read_vocabulary()

    def prepare_input(self, request: GenerationRequest) -> PreparedInput:
        """Turn a conversation into token ids and final values.

        Takes milliseconds to seconds: call it in a worker thread.

        Raises InvalidRequest for what this model cannot do, ContextTooLong when the prompt leaves no place
        for an answer.
        """
        sampling = self._sampling(request)
        # A template may trim what is said, but leaves none of it out.
        self._refuse_hopeless(
            (message.text for message in request.messages if message.role == "user"), may_lose_spaces=True
        )
        prompt = self._write(request)
        self._refuse_hopeless([prompt.text])
        token_ids, prompt_tail, opened = self._encode(prompt, request)
        seen = self._put_images_in(token_ids, request)
        guidance = self._grammars.guidance(request, prompt, grammar_start=prompt_tail[len(prompt.tail) :])
        refuse_early_end(request, guidance)
        return PreparedInput(
            token_ids=seen.token_ids,
            sampling=sampling,
            stop_token_ids=self.stop_token_ids,
            max_tokens=self._max_tokens(request, seen.token_ids),
            prompt_tail=prompt_tail,
            opened=opened,
            guidance=guidance,
            images=seen.images,
            num_long_ttl_tokens=self._num_longer_tokens(request, seen.token_ids),
        )

    def prepare_text(self, request: GenerationRequest, prompt: str | tuple[int, ...]) -> PreparedInput:
        """Turn one of a request's raw prompts into what `prepare_input` makes of a conversation; it raises
        the same.
        """
        sampling = self._sampling(request)
        if isinstance(prompt, str):
            self._refuse_hopeless([prompt])
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
        """Turn a text, or token ids, into what an embedding model reads; `param` is what the caller calls it.

        The rest is as in EmbeddingTexts. Raises InvalidRequest and ContextTooLong.
        """
        assert self._embedding_texts is not None, "only an embedding model embeds"
        token_ids = self._embedding_texts.token_ids(text, prompt_name=prompt_name, may_cut=may_cut)
        self._check_ids(token_ids, param)
        return token_ids

    def count_prompt_tokens(self, request: GenerationRequest) -> int:
        """Count the tokens of a request's prompt, however long it is; raises InvalidRequest as
        `prepare_input` does.
        """
        return len(self.prompt_tokens(request).token_ids)

    def prompt_text(self, request: GenerationRequest) -> str:
        """Return the text of a request's prompt; raises InvalidRequest as `prepare_input` does."""
        return self._write(request).text

    def prompt_tokens(self, request: GenerationRequest) -> PromptTokens:
        """Return a request's prompt, however long it is; raises InvalidRequest as `prepare_input` does."""
        return self._put_images_in(self._encode(self._write(request), request)[0], request)

    def remember_answer(self, prepared: PreparedInput, generated_ids: Sequence[int]) -> None:
        """Keep the ids of an answer that came to its end, so that its text becomes these ids again when it is
        sent back.
        """
        if prepared.opened is not None:
            self.learn(self.answer_segments(prepared.opened, generated_ids))

    def answer_segments(self, opened: OpenSegment, generated_ids: Sequence[int]) -> list[EncodedSegment]:
        """Return what is worth knowing of an answer that came to its end, for `learn`, here or in another
        process.
        """
        return list(self._known_text.segments_of(opened, generated_ids))

    def learn(self, segments: Iterable[EncodedSegment]) -> None:
        """Have the text of answers become the ids again that they were."""
        self._known_text.learn(segments)

    def _write(self, request: GenerationRequest) -> Prompt:
        if self._writer is None:
            raise InvalidRequest(f"model {self.name!r} has no chat template and cannot chat", param="model")
        return self._writer.write(request)

    def _encode(self, prompt: Prompt, request: GenerationRequest) -> tuple[tuple[int, ...], str, OpenSegment]:
        """Tokenize; give the tail as it is then, and what an answer continues.

        Ids that the embedding table lacks are garbage.
        """
        whole_ids, opened = self._known_text.encode(prompt.text + prompt.opening, request.cache.namespace)
        token_ids, num_opening_chars = self.vocabulary.up_to_seam(whole_ids, prompt.opening)
        self._check_ids(token_ids, "messages")
        opened = opened.shortened(
            num_chars=len(prompt.opening) - num_opening_chars, num_tokens=len(whole_ids) - len(token_ids)
        )
        return tuple(token_ids), prompt.tail + prompt.opening[:num_opening_chars], opened

    def _put_images_in(self, token_ids: tuple[int, ...], request: GenerationRequest) -> PromptTokens:
        images = shown_images(request.messages)
        # To a model without vision nothing comes here: images were refused when the conversation was written.
        if self._vision is None or not images:
            return PromptTokens(token_ids=token_ids)
        return self._vision.put_in(token_ids, images)

    def _num_longer_tokens(self, request: GenerationRequest, token_ids: Sequence[int]) -> int:
        """Count the tokens that the prompt has in common with its beginning that is kept for longer; all if
        that cannot be told.
        """
        longer = request.cache.longer
        # A mark on tools that are not offered keeps nothing: the prompt has none of them.
        if (
            longer is None
            or self._writer is None
            or not (longer.num_messages or request.tool_choice.mode != "none")
        ):
            return 0
        beginning = breakpoint_prefix(request, longer)
        try:
            text = self._writer.write_unopened(beginning)
        except InvalidRequest:
            # The template wants more of a conversation than this.
            return len(token_ids)
        return num_common(
            token_ids, self._put_images_in(self._encode(Prompt(text=text), request)[0], beginning).token_ids
        )

    def _check_ids(self, token_ids: Sequence[int], param: str) -> None:
        if not token_ids:
            raise InvalidRequest("the prompt is empty", param=param)
        if (highest := max(token_ids)) >= self.vocabulary_size:
            last = self.vocabulary_size - 1
            message = f"the prompt has token {highest}, but model {self.name!r} has no weights for tokens beyond {last}"
            raise InvalidRequest(message, param=param)

    def _refuse_hopeless(self, texts: Iterable[str], *, may_lose_spaces: bool = False) -> None:
        """Raise ContextTooLong for long texts that cannot fit the context, by their length alone; its number
        is the least then.
        """
        long = [text for text in texts if text]
        if sum(map(len, long)) < _QUICK_CHARS:
            return
        least = sum(self.vocabulary.least_tokens.of(text, may_lose_spaces=may_lose_spaces) for text in long)
        if least > self.facts.context_length:
            raise ContextTooLong(num_prompt_tokens=least, context_length=self.facts.context_length)

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
    """How many ids the model has weights for; tokenizers may know fewer, or, oddly, more."""
    text_config = facts.config.get("text_config")
    sources = [text_config, facts.config] if isinstance(text_config, Mapping) else [facts.config]
    sizes = [size for source in sources if (size := source.get("vocab_size")) is not None]
    size = sizes[0] if sizes else vocabulary.size
    if not isinstance(size, int) or isinstance(size, bool) or size < 1:
        raise BrokenModel(
            facts.path, f"vocab_size in config.json of {facts.path.name!r} is no size: {size!r}"
        )
    return size
