"""The models that hear and speak in a session. Event-loop thread only."""

from typing import Literal

from mlxctl.inference.call_context import CallContext
from mlxctl.inference.models.manager import Models
from mlxctl.inference.models.served_model import ServedModel
from mlxctl.ir.errors import InvalidRequest, UnknownVoice
from mlxctl.protocols.openai.realtime.session import Session
from mlxctl.protocols.openai.speech import find_voice

_INPUT = "session.audio.input.transcription"
_OUTPUT = "session.audio.output"


class AudioModels:
    """Finds a session's models, else the only ones of their kind."""

    def __init__(self, models: Models, call: CallContext) -> None:
        self._models = models
        self._call = call

    async def hearing(self, session: Session) -> str | None:
        """Return the transcription model, None if the server has none. Raises RequestError."""
        asked = session.audio.input.transcription
        found = await self._find("transcription", asked.model if asked else None, f"{_INPUT}.model")
        return None if found is None else found.name

    async def speaking(self, session: Session) -> str | None:
        """Return the speech model, None if the server has none.

        Raises RequestError, also for a voice or a speed that it does not have.
        """
        output = session.audio.output
        found = await self._find("speech", output.model, f"{_OUTPUT}.model")
        if found is None:
            return None
        recipe = found.facts.speech
        assert recipe is not None, "only speech models are found here"
        voice = find_voice(output.voice, recipe)
        if voice is not None and voice not in recipe.voices:
            unknown = UnknownVoice(voice, tuple(recipe.voices))
            raise InvalidRequest(str(unknown), param=f"{_OUTPUT}.voice", code="invalid_value")
        if output.speed != 1 and not recipe.takes_speed:
            message = f"model {found.name!r} has one speed; leave speed out"
            raise InvalidRequest(message, param=f"{_OUTPUT}.speed", code="invalid_value")
        return found.name

    async def _find(
        self, purpose: Literal["transcription", "speech"], name: str | None, param: str
    ) -> ServedModel | None:
        if name:
            return await self._models.find(name, self._call, purpose)
        models = [
            model
            for model in self._models.served(self._call.models)
            if model.facts.purpose == purpose
            and (model.facts.transcription is None or model.facts.transcription.purpose == "transcription")
        ]
        if len(models) > 1:
            names = ", ".join(model.name for model in models)
            message = f"{param} is missing; the server has several models for {purpose}: {names}"
            raise InvalidRequest(message, param=param, code="missing_required_parameter")
        return models[0] if models else None
