"""One compiled chat template: rendering, and the variables it reads.

PERF: Jinja is imported with the first template, not when the server starts.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from mlxctl.errors import BrokenModel, InvalidRequest
from mlxctl.ir import ModelFacts

_TOKEN_NAMES = ("bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token")

TemplateMessage = dict[str, Any]


class ChatTemplate:
    """A model's chat template, compiled once; rendering is thread-safe.

    Raises BrokenModel when it cannot be compiled.
    """

    def __init__(self, facts: ModelFacts, source: str) -> None:
        import jinja2
        from jinja2 import meta

        from mlxctl.adapters.templates.environment import chat_template_environment, counted_steps

        environment = chat_template_environment()
        try:
            self.variables = frozenset(meta.find_undeclared_variables(environment.parse(source)))
            # Compiling evaluates the constant parts.
            with counted_steps():
                self._template = environment.from_string(source)
        except (jinja2.TemplateError, RecursionError) as error:
            reason = error.message if isinstance(error, jinja2.TemplateError) else error
            line = f" in line {error.lineno}" if isinstance(error, jinja2.TemplateSyntaxError) else ""
            raise BrokenModel(
                facts.path, f"the chat template of {facts.path.name!r} is broken{line}: {reason}"
            ) from error
        self.source = source
        self._model = facts.path.name
        self._special_tokens = special_token_texts(facts.tokenizer_config)

    def render(
        self,
        messages: Sequence[TemplateMessage],
        *,
        tools: Sequence[Mapping[str, Any]] = (),
        options: Mapping[str, Any] | None = None,
        add_generation_prompt: bool = True,
    ) -> str:
        """Render a conversation.

        Raises InvalidRequest with the template's message when the template rejects it.
        """
        from mlxctl.adapters.templates.environment import TemplateRejection, counted_steps

        variables = {
            **self._special_tokens,
            **(options or {}),
            "messages": messages,
            "tools": list(tools) or None,
            "documents": None,
            "add_generation_prompt": add_generation_prompt,
        }
        try:
            with counted_steps():
                return self._join(variables)
        except TemplateRejection as error:
            raise InvalidRequest(
                f"the chat template of {self._model!r} refuses this: {error}", param="messages"
            ) from error
        except InvalidRequest:
            raise
        # A template is foreign code, which may raise anything.
        except Exception as error:
            message = f"the chat template of {self._model!r} cannot render this conversation: {error}"
            raise InvalidRequest(message, param="messages") from error

    def _join(self, variables: dict[str, Any]) -> str:
        from mlxctl.adapters.templates.environment import MAX_CHARS

        pieces: list[str] = []
        num_chars = 0
        for piece in self._template.generate(variables):
            pieces.append(piece)
            num_chars += len(piece)
            if num_chars > MAX_CHARS:
                raise InvalidRequest(
                    f"the rendered prompt is longer than {MAX_CHARS} characters", param="messages"
                )
        return "".join(pieces)


def special_token_texts(tokenizer_config: Mapping[str, Any]) -> dict[str, str]:
    """Return the special tokens of tokenizer_config.json by their names.

    The file may hold each as a string or as an object with `content`.
    """
    texts: dict[str, str] = {}
    for name in _TOKEN_NAMES:
        value = tokenizer_config.get(name)
        text = value.get("content") if isinstance(value, Mapping) else value
        if isinstance(text, str):
            texts[name] = text
    return texts
