"""Drafters of speculative decoding that the settings choose for a model.

Reads files only. Blocks; any thread.
"""

from mlxctl.inference.models.served_model import ServedModel
from mlxctl.ir.errors import ModelError, SettingsError, UsageError
from mlxctl.ir.model_spec import DraftModelSpec
from mlxctl.library import Library, NamedDirectory, read_model
from mlxctl.library.draft_models import vocabulary_problem
from mlxctl.library.mtp_heads import is_mtp_head, mtp_problem
from mlxctl.state.settings import Settings


class DrafterReader:
    """Checks the draft model and the MTP heads of the settings."""

    def __init__(self, settings: Settings, library: Library) -> None:
        self._draft = settings.model.draft
        self._speculation = settings.engine.speculation
        self._library = library

    def draft_of(self, model: ServedModel, *, must_fit: bool = False) -> DraftModelSpec | None:
        """Return the draft model or MTP head that fits the model.

        A draft model fits if it has the same vocabulary. Raises SettingsError where it `must_fit` and does
        not, and if it cannot be used at all.
        """
        if self._draft is None:
            if self._speculation == "draft":
                raise UsageError("speculation is 'draft' but there is no draft model: set --draft MODEL")
            return None
        if self._speculation in ("off", "lookup"):
            raise self._wrong_speculation("auto")
        try:
            found = self._library.resolve(str(self._draft))
            draft = self._mtp_head(found) if is_mtp_head(found.path) else self._draft_model(found)
        except ModelError as error:
            raise SettingsError(f"the draft model cannot be used: {error}") from None
        problem = (
            mtp_problem(model.facts.path, draft.path)
            if draft.is_mtp_head
            else vocabulary_problem(model.facts.path, draft.path)
        )
        if not problem and model.facts.purpose == "text":
            return draft
        if must_fit:
            why = problem or "only models that generate text have a draft model"
            raise SettingsError(f"model {found.name!r} cannot draft for {model.name!r}: {why}")
        return None

    def uses_own_mtp_head(self, model: ServedModel, *, must_fit: bool) -> bool:
        """Whether the settings use MTP heads and the model's weights have one.

        Raises SettingsError where they must have one.
        """
        if self._speculation not in ("auto", "mtp") or model.facts.purpose != "text":
            return False
        problem = mtp_problem(model.facts.path)
        if problem and must_fit and self._speculation == "mtp":
            raise SettingsError(
                f"speculation is 'mtp' but model {model.name!r} cannot draft for itself: {problem}; "
                "set --draft to the directory of its MTP head, or --speculation lookup"
            )
        return not problem

    def _draft_model(self, found: NamedDirectory) -> DraftModelSpec:
        if self._speculation == "mtp":
            raise self._wrong_speculation("auto")
        facts = read_model(found.path, trust_remote_code=False)
        return DraftModelSpec(path=facts.path, weights_bytes=facts.weights_bytes)

    def _mtp_head(self, found: NamedDirectory) -> DraftModelSpec:
        if self._speculation == "draft":
            raise UsageError(f"--draft {found.name!r} is an MTP head: set --speculation mtp")
        files = found.path.glob("*.safetensors")
        num_bytes = sum(file.stat().st_size for file in files)
        return DraftModelSpec(path=found.path, weights_bytes=num_bytes, is_mtp_head=True)

    def _wrong_speculation(self, other: str) -> UsageError:
        return UsageError(
            f"--draft is set but speculation is {self._speculation!r}: set --speculation {other}"
        )
