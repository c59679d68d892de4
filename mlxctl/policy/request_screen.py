"""Guardrails over the texts of a request, in a preparation process."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from mlxctl.errors import GuardrailMatched, InvalidRequest
from mlxctl.ir import (
    DocumentPart,
    GenerationRequest,
    Message,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolResultPart,
)
from mlxctl.ir.policy import GuardrailRules
from mlxctl.parsers.json_escapes import decode_escapes
from mlxctl.policy.guardrails import GuardrailMatch, Guardrails, GuardrailTest, Verdict


@dataclass(frozen=True, slots=True, kw_only=True)
class Screening:
    """What guardrails did with a request.

    `request` is None where it is unchanged.
    """

    request: GenerationRequest | None
    verdict: Verdict | None


class InputScreen:
    """Applies guardrails to the texts of a request, except names."""

    def __init__(self, rules: GuardrailRules) -> None:
        self._rules = rules

    def screen(self, packed: Any) -> Screening:
        """Check a packed request. Raises GuardrailMatched, InvalidRequest."""
        check = _RequestCheck(Guardrails(self._rules))
        request = check.request(packed.unpack())
        verdicts = [match.verdict for match in check.matches]
        if "refused" in verdicts:
            raise GuardrailMatched("the prompt has text that this server does not accept")
        return Screening(
            request=request if "redacted" in verdicts else None, verdict=verdicts[0] if verdicts else None
        )

    def test(self, packed: Any) -> GuardrailTest:
        """Return what `screen` would do, text by text. Raises InvalidRequest."""
        check = _RequestCheck(Guardrails(self._rules))
        check.request(packed.unpack())
        verdict = check.matches[0].verdict if check.matches else None
        return GuardrailTest(verdict=verdict, matches=check.matches)


class _RequestCheck:
    """Checks the texts of one request; `matches` are those with a verdict."""

    def __init__(self, guardrails: Guardrails) -> None:
        self.matches: list[GuardrailMatch] = []
        self._guardrails = guardrails

    def request(self, request: GenerationRequest) -> GenerationRequest:
        """Return the request with its allowed texts. Raises InvalidRequest."""
        prompts = [prompt for prompt in request.prompts if isinstance(prompt, str)]
        if len(prompts) < len(request.prompts):
            raise InvalidRequest(
                "prompt must be text here: the guardrails of this server cannot check token ids",
                param="prompt",
            )
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


def _unread(part: DocumentPart) -> InvalidRequest:
    message = f"{part.param} is a PDF, whose text is not read for this; send its text"
    return InvalidRequest(message, param=part.param)
