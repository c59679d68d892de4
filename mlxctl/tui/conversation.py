"""The messages so far, and how to retry or edit the last one. Pure; knows no model and no screen."""

from collections.abc import Sequence
from dataclasses import dataclass

from mlxctl.ir import (
    GenerationRequest,
    ImagePart,
    Message,
    SamplingOptions,
    TextPart,
    ThinkingOptions,
    ToolSpec,
    text_message,
)
from mlxctl.tui.options import ChatOptions


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """One message of the conversation. A partial one was stopped, or lost its model, before it was over."""

    message: Message
    is_partial: bool = False
    thinking_seconds: float | None = None


class Conversation:
    """Questions, answers and tool results in order; the system prompt is among the options, so that it can be
    changed.
    """

    def __init__(self, said: Sequence[Said] = ()) -> None:
        self._said = list(said)

    @property
    def said(self) -> tuple[Said, ...]:
        """Everything, oldest first."""
        return tuple(self._said)

    @property
    def last_question(self) -> str | None:
        """The text that a person sent last."""
        return next((said.message.text for said in reversed(self._said) if said.message.role == "user"), None)

    @property
    def title(self) -> str:
        """The first line of the first question; empty before it."""
        question = next((said.message.text for said in self._said if said.message.role == "user"), "")
        return next((line.strip() for line in question.splitlines() if line.strip()), "")

    @property
    def last_answer(self) -> str | None:
        """The last visible text of the model."""
        answers = (said.message.text for said in reversed(self._said) if said.message.role == "assistant")
        return next((text for text in answers if text), None)

    @property
    def last_images(self) -> tuple[ImagePart, ...]:
        """The images of the last question."""
        questions = [said.message for said in self._said if said.message.role == "user"]
        return tuple(part for part in questions[-1].parts if isinstance(part, ImagePart)) if questions else ()

    @property
    def images(self) -> tuple[ImagePart, ...]:
        """All images that were shown."""
        return tuple(
            part for said in self._said for part in said.message.parts if isinstance(part, ImagePart)
        )

    def ask(self, text: str, images: Sequence[ImagePart] = ()) -> None:
        """Add a question, with the images that it is about."""
        self._said.append(Said(message=Message(role="user", parts=(*images, TextPart(text=text)))))

    def add(self, said: Said) -> None:
        """Add an answer or the results of tools."""
        self._said.append(said)

    @property
    def is_answered(self) -> bool:
        """Whether anything follows the last question."""
        return bool(self._said) and self._said[-1].message.role != "user"

    def forget_answer(self) -> tuple[Said, ...] | None:
        """Remove and return everything after the last question; None when nothing was asked."""
        questions = [index for index, said in enumerate(self._said) if said.message.role == "user"]
        if not questions:
            return None
        forgotten = tuple(self._said[questions[-1] + 1 :])
        del self._said[questions[-1] + 1 :]
        return forgotten

    def take_back_question(self) -> str | None:
        """Remove the last question and what followed; returns its text, or None when nothing was asked."""
        text = self.last_question
        if self.forget_answer() is not None:
            self._said.pop()
        return text

    def request(self, model: str, options: ChatOptions, tools: Sequence[ToolSpec]) -> GenerationRequest:
        """Return the request that continues the conversation."""
        system = (text_message("system", options.system_prompt),) if options.system_prompt else ()
        enabled = {"default": None, "on": True, "off": False}[options.thinking]
        return GenerationRequest(
            model=model,
            messages=(*system, *(said.message for said in self._said if said.message.parts)),
            tools=tuple(tools),
            sampling=SamplingOptions(temperature=options.temperature, top_p=options.top_p),
            thinking=ThinkingOptions(enabled=enabled),
            max_tokens=options.max_tokens,
            stream=True,
        )
