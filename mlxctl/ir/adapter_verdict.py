"""What an adapter detected about its model, stored and shown."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

DeliveryVerdict = Literal["template", "injected", "none"]


@dataclass(frozen=True, slots=True, kw_only=True)
class DefaultSampling:
    """Sampling values of requests that set none.

    They come from the server's settings, the model's files, or from mlxctl where neither sets any; "none" is
    plain sampling.
    """

    source: Literal["server", "model", "fallback", "none"] = "none"
    values: Mapping[str, float] = field(default_factory=dict)

    def summary(self) -> str:
        """Return the values and their source in one line."""
        written = ", ".join(f"{name} {value:g}" for name, value in self.values.items()) or "temperature 1"
        return f"{written} ({_SOURCES[self.source]})"


_SOURCES = {
    "server": "set by the server",
    "model": "set by the model's generation_config.json",
    "fallback": "the model sets none; --no-fallback-sampling turns this off",
    "none": "the model sets none",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class AdapterVerdict:
    """The detected formats, and what the chat template supports.

    `tool_delivery` is how tools reach the model: by the template, in the system prompt, or not at all; the
    model may then still be forced to call (`can_force_tools`). `opens_thinking` is true if a prompt by
    default ends with an open thought; `keeps_thinking` if thinking of finished turns is rendered again,
    `keeps_turn_thinking` if thinking within a turn of calls is. Messages in an unsupported form are converted
    (`reshaping`, `call_shape`), except images and audio; `vision_problem` and `audio_problem` are why a model
    for these takes none. `efforts` are the reasoning efforts that the template distinguishes. `sampling`
    holds for requests that set no values.
    """

    family: str
    tool_parser_id: str
    thinking_parser_id: str
    tool_delivery: DeliveryVerdict
    can_force_tools: bool
    thinking_switch: str | None
    supports_thinking_toggle: bool
    opens_thinking: bool
    keeps_thinking: bool
    keeps_turn_thinking: bool
    takes_system: bool
    takes_later_system: bool
    takes_repeated_roles: bool
    takes_tools: bool
    takes_calls: bool
    takes_parallel_calls: bool
    takes_text_beside_calls: bool
    takes_results: bool
    takes_images: bool = False
    vision_problem: str | None = None
    takes_audio: bool = False
    audio_problem: str | None = None
    efforts: tuple[str, ...] = ()
    sampling: DefaultSampling = DefaultSampling()

    def summary(self) -> str:
        """Return one line for the operator who loads the model."""
        delivery = "by the template" if self.tool_delivery == "template" else "in the system prompt"
        if self.tool_delivery == "none":
            tools = "tools in forced calls only" if self.can_force_tools else "no tools"
        else:
            tools = f"tools {self.tool_parser_id}, offered {delivery}"
        switch = f", switched by {self.thinking_switch}" if self.thinking_switch else ""
        thinking = (
            "no thinking"
            if self.thinking_parser_id == "null"
            else f"thinking {self.thinking_parser_id}{switch}"
        )
        converted = [name for name, is_taken in self._shapes().items() if not is_taken]
        shapes = f"; converted for its template: {', '.join(converted)}" if converted else ""
        return f"family {self.family}; {tools}; {thinking}{self._media()}{shapes}"

    def _media(self) -> str:
        media = (
            ("images", self.takes_images, self.vision_problem),
            ("audio", self.takes_audio, self.audio_problem),
        )
        taken = " and ".join(name for name, is_taken, _ in media if is_taken)
        problems = [problem for _, _, problem in media if problem]
        if taken:
            return "; ".join(["", f"takes {taken}", *problems])
        return f"; reads text only: {'; '.join(problems)}" if problems else ""

    def _shapes(self) -> dict[str, bool]:
        return {
            "system messages": self.takes_system,
            "later system messages": self.takes_later_system,
            "repeated roles": self.takes_repeated_roles,
            "tool calls": self.takes_calls,
            "several calls at once": self.takes_parallel_calls,
            "text beside calls": self.takes_text_beside_calls,
            "tool results": self.takes_results,
        }
