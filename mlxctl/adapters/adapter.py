"""What a model is like: how it is asked, and how its answer is read. One instance per loaded model."""

from collections.abc import Mapping, Sequence
from typing import ClassVar

from mlxctl.adapters.chat_template import ChatTemplate
from mlxctl.adapters.known_parsers import known_thinking_parser, known_tool_parser
from mlxctl.adapters.parser_choice import find_thinking_parser, find_tool_parser
from mlxctl.adapters.prepared import PreparedInput
from mlxctl.adapters.processor import StreamProcessor, find_hidden_ids
from mlxctl.adapters.prompt import Prompt, PromptWriter
from mlxctl.adapters.sampling import final_sampling, sampling_defaults
from mlxctl.adapters.shape import TemplateShape, probe_shape
from mlxctl.adapters.stop_tokens import find_stop_tokens
from mlxctl.adapters.vocabulary import Vocabulary, load_vocabulary
from mlxctl.errors import BrokenModel, ContextTooLong, InvalidRequest
from mlxctl.ir import GenerationRequest, ModelCapabilities, ModelFacts
from mlxctl.parsers import TOOL_PARSER_IDS, thinking_parser, tool_parser

NOTHING_KNOWN = ModelCapabilities()


class ModelAdapter:
    """A loaded model as the front knows it. Thread-safe: nothing changes after it was made.

    A family is a subclass that says what is known better than by looking. Raises BrokenModel when tokenizer or template cannot
    be used. A model without a template can be made, but not chatted with. What is known of its capabilities is not looked for.
    """

    tool_parser_ids: ClassVar[tuple[str, ...]] = TOOL_PARSER_IDS
    """The formats in which the family may call tools; which one it is, is read off the template."""

    end_tokens: ClassVar[tuple[str, ...]] = ()
    """Tokens that end an answer in all models of the family whose vocabulary has them."""

    def __init__(self, facts: ModelFacts, *, name: str, capabilities: ModelCapabilities = NOTHING_KNOWN) -> None:
        self.name = name
        self.facts = facts
        self.vocabulary: Vocabulary = load_vocabulary(facts)
        self.vocabulary_size = _vocabulary_size(facts, self.vocabulary)
        template = None if facts.chat_template is None else ChatTemplate(facts, facts.chat_template)
        shape = TemplateShape() if template is None else probe_shape(template)
        self.shape = shape
        self._tools = known_tool_parser(capabilities) or find_tool_parser(self.tool_parser_ids, template, shape, self.vocabulary)
        self._thinking = known_thinking_parser(capabilities) or find_thinking_parser(template, self.vocabulary)
        self._writer = None if template is None else PromptWriter(template, shape, self._tools, self._thinking)
        self._hidden_ids = {
            (tools.id, thinking.id): find_hidden_ids(self.vocabulary, tools, thinking)
            for tools in (self._tools, _NO_TOOLS)
            for thinking in (self._thinking, _NO_THINKING)
        }
        self._defaults = sampling_defaults(facts)
        self.stop_token_ids = find_stop_tokens(
            facts, self.vocabulary, template, vocabulary_size=self.vocabulary_size, end_tokens=self.end_tokens
        )

    @property
    def tool_parser_id(self) -> str:
        """The format in which calls are read; "null" for none."""
        return self._tools.id

    @property
    def thinking_parser_id(self) -> str:
        """The format in which thinking is read; "null" for none."""
        return self._thinking.id

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

    def prepare_input(self, request: GenerationRequest) -> PreparedInput:
        """Turn a conversation into token ids and final values. Takes milliseconds to seconds: call it in a worker thread.

        Raises InvalidRequest for what this model cannot do, ContextTooLong when the prompt leaves no place for an answer.
        """
        sampling = final_sampling(request.sampling, self._defaults, vocabulary_size=self.vocabulary_size)
        token_ids, prompt_tail = self._encode(self._write(request))
        return PreparedInput(
            token_ids=token_ids,
            sampling=sampling,
            stop_token_ids=self.stop_token_ids,
            max_tokens=self._max_tokens(request, token_ids),
            prompt_tail=prompt_tail,
        )

    def prepare_text(self, request: GenerationRequest, prompt: str | tuple[int, ...]) -> PreparedInput:
        """Turn one of a request's raw prompts into what `prepare_input` makes of a conversation; it raises the same."""
        sampling = final_sampling(request.sampling, self._defaults, vocabulary_size=self.vocabulary_size)
        token_ids = tuple(self.vocabulary.encode_whole_text(prompt)) if isinstance(prompt, str) else prompt
        self._check_ids(token_ids, "prompt")
        echo = prompt if isinstance(prompt, str) else self.vocabulary.decode(prompt)
        return PreparedInput(
            token_ids=token_ids,
            sampling=sampling,
            stop_token_ids=self.stop_token_ids,
            max_tokens=self._max_tokens(request, token_ids),
            echo=echo if request.echo else "",
        )

    def count_prompt_tokens(self, request: GenerationRequest) -> int:
        """Count the tokens of a request's prompt, however long it is; raises InvalidRequest as `prepare_input` does."""
        token_ids, _ = self._encode(self._write(request))
        return len(token_ids)

    def create_stream_processor(self, request: GenerationRequest, prepared: PreparedInput) -> StreamProcessor:
        """Make what reads the answer to this request. A call when no tools were offered is plain text."""
        offers_tools = bool(request.tools) and request.tool_choice.mode != "none"
        tools = self._tools if offers_tools else _NO_TOOLS
        thinking = _NO_THINKING if request.prompts else self._thinking
        hidden_ids = self._hidden_ids[tools.id, thinking.id]
        return StreamProcessor(request, prepared, self.vocabulary, tools=tools, thinking=thinking, hidden_ids=hidden_ids)

    def _write(self, request: GenerationRequest) -> Prompt:
        if self._writer is None:
            raise InvalidRequest(f"model {self.name!r} has no chat template and cannot chat", param="model")
        return self._writer.write(request)

    def _encode(self, prompt: Prompt) -> tuple[tuple[int, ...], str]:
        """Tokenise, and give the tail as it is then. An id that the embedding table does not have would be read as garbage."""
        token_ids, num_opening_chars = self.vocabulary.encode_up_to_seam(prompt.text, prompt.opening)
        self._check_ids(token_ids, "messages")
        return tuple(token_ids), prompt.tail + prompt.opening[:num_opening_chars]

    def _check_ids(self, token_ids: Sequence[int], param: str) -> None:
        if not token_ids:
            raise InvalidRequest("the prompt is empty", param=param)
        if (highest := max(token_ids)) >= self.vocabulary_size:
            last = self.vocabulary_size - 1
            message = f"the prompt has token {highest}, but model {self.name!r} has no weights for tokens beyond {last}"
            raise InvalidRequest(message, param=param)

    def _max_tokens(self, request: GenerationRequest, token_ids: Sequence[int]) -> int:
        rest = self.facts.context_length - len(token_ids)
        if rest <= 0:
            raise ContextTooLong(num_prompt_tokens=len(token_ids), context_length=self.facts.context_length)
        return rest if request.max_tokens is None else min(request.max_tokens, rest)


_NO_TOOLS = tool_parser("null")
_NO_THINKING = thinking_parser("null")


def _vocabulary_size(facts: ModelFacts, vocabulary: Vocabulary) -> int:
    """How many ids the model has weights for; tokenizers may know fewer, or, oddly, more."""
    text_config = facts.config.get("text_config")
    sources = [text_config, facts.config] if isinstance(text_config, Mapping) else [facts.config]
    sizes = [size for source in sources if (size := source.get("vocab_size")) is not None]
    size = sizes[0] if sizes else vocabulary.size
    if not isinstance(size, int) or isinstance(size, bool) or size < 1:
        raise BrokenModel(facts.path, f"vocab_size in config.json of {facts.path.name!r} is no size: {size!r}")
    return size
