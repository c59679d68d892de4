"""Guardrails over the texts of a request, in a preparation process."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from mlxctl.formats.parsers.json_escapes import decode_escapes
from mlxctl.ir import (
    DocumentPart,
    EmbeddingRequest,
    GenerationRequest,
    Message,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolResultPart,
)
from mlxctl.ir.errors import GuardrailMatched, InvalidRequest
from mlxctl.ir.policy import GuardrailRules
from mlxctl.server.policy.guardrails import GuardrailMatch, Guardrails, GuardrailTest, Verdict


@dataclass(frozen=True, slots=True, kw_only=True)
class Screening:
    """What guardrails did with the content of a request.

    `content` is None where it is unchanged.
    """

    content: GenerationRequest | EmbeddingRequest | str | None
    verdict: Verdict | None


class InputScreen:
    """Applies guardrails to the texts of a request, except names.

    Its content is a packed request, or the prompt of a transcription.
    """

    def __init__(self, rules: GuardrailRules) -> None:
        self._rules = rules

    def screen(self, content: Any) -> Screening:
        """Check the content of a request. Raises GuardrailMatched, InvalidRequest."""
        check = _RequestCheck(Guardrails(self._rules))
        allowed = check.content(content)
        verdicts = [match.verdict for match in check.matches]
        if "refused" in verdicts:
            raise GuardrailMatched("the prompt has text that this server does not accept")
        return Screening(
            content=allowed if "redacted" in verdicts else None, verdict=verdicts[0] if verdicts else None
        )

    def test(self, content: Any) -> GuardrailTest:
        """Return what `screen` would do, text by text. Raises InvalidRequest."""
        check = _RequestCheck(Guardrails(self._rules))
        check.content(content)
        verdict = check.matches[0].verdict if check.matches else None
        return GuardrailTest(verdict=verdict, matches=check.matches)


class RequestGuardrails(Guardrails):
    """Guardrails that check whole requests, too."""

    @property
    def screen(self) -> Callable[[Any], Screening]:
        """Check of a request's content, for a preparation process."""
        return InputScreen(self.rules).screen


class _RequestCheck:
    """Checks the texts of one request; `matches` are those with a verdict."""

    def __init__(self, guardrails: Guardrails) -> None:
        self.matches: list[GuardrailMatch] = []
        self._guardrails = guardrails

    def content(self, content: Any) -> GenerationRequest | EmbeddingRequest | str:
        """Return the content with its allowed texts. Raises InvalidRequest."""
        if isinstance(content, str):
            return self._text(content, "prompt")
        request: GenerationRequest | EmbeddingRequest = content.unpack()
        return (
            self._embedding(request) if isinstance(request, EmbeddingRequest) else self._generation(request)
        )

    def _embedding(self, request: EmbeddingRequest) -> EmbeddingRequest:
        inputs = _only_texts(request.inputs, "input")
        return replace(
            request,
            inputs=tuple(self._text(text, f"input[{number}]") for number, text in enumerate(inputs)),
            query=None if request.query is None else self._text(request.query, "query"),
        )

    def _generation(self, request: GenerationRequest) -> GenerationRequest:
        prompts = _only_texts(request.prompts, "prompt")
        return replace(
            request,
            messages=tuple(
                self._message(message, f"messages[{number}] ({message.role})")
                for number, message in enumerate(request.messages)
            ),
            prompts=tuple(self._text(prompt, f"prompts[{number}]") for number, prompt in enumerate(prompts)),
            suffix=None if request.suffix is None else self._text(request.suffix, request.suffix_param),
            tools=tuple(
                replace(
                    tool,
                    description=self._text(tool.description, f"tool {tool.name!r}"),
                    parameters=self._value(tool.parameters, f"tool {tool.name!r}"),
                )
                for tool in request.tools
            ),
            template_kwargs=self._value(request.template_kwargs, "chat_template_kwargs"),
        )

    def _message(self, message: Message, where: str) -> Message:
        parts: list[Any] = list(message.parts)
        for kind in (TextPart, ThinkingPart):
            self._join(parts, kind, where)
        for number, part in enumerate(parts):
            match part:
                case DocumentPart():
                    raise _unread(part)
                case ToolCallPart():
                    parts[number] = replace(part, arguments=self._json(part.arguments, where))
                case ToolResultPart():
                    content = list(part.content)
                    if unread := [inner for inner in content if isinstance(inner, DocumentPart)]:
                        raise _unread(unread[0])
                    self._join(content, TextPart, where)
                    parts[number] = replace(part, content=tuple(content))
        return replace(message, parts=tuple(parts))

    def _join(self, parts: list[Any], kind: type[TextPart | ThinkingPart], where: str) -> None:
        """Check the texts of a kind as one, since templates join them."""
        places = [number for number, part in enumerate(parts) if isinstance(part, kind)]
        texts = self._texts([parts[number].text for number in places], where)
        for number, text in zip(places, texts, strict=True):
            parts[number] = replace(parts[number], text=text)

    def _json(self, text: str, where: str) -> str:
        decoded = decode_escapes(text)
        shown = self._text(decoded, where)
        return text if shown == decoded else shown

    def _value(self, value: Any, where: str) -> Any:
        """Check the texts and names in a JSON value."""
        if isinstance(value, str):
            return self._text(value, where)
        if isinstance(value, Mapping):
            return {self._text(name, where): self._value(item, where) for name, item in value.items()}
        if isinstance(value, list | tuple):
            return [self._value(item, where) for item in value]
        return value

    def _text(self, text: str, where: str) -> str:
        return self._texts([text], where)[0]

    def _texts(self, texts: Sequence[str], where: str) -> Sequence[str]:
        shown, verdict = self._guardrails.check(texts)
        if verdict is None:
            return texts
        self.matches.append(GuardrailMatch(where=where, verdict=verdict, text="".join(shown)))
        return shown


def _only_texts(texts: Sequence[str | tuple[int, ...]], field: str) -> list[str]:
    """Return the texts of a field. Raises InvalidRequest for token ids."""
    found = [text for text in texts if isinstance(text, str)]
    if len(found) < len(texts):
        message = f"{field} must be text here: the guardrails of this server cannot check token ids"
        raise InvalidRequest(message, param=field)
    return found


def _unread(part: DocumentPart) -> InvalidRequest:
    message = f"{part.param} is a PDF, whose text is not read for this; send its text"
    return InvalidRequest(message, param=part.param)
