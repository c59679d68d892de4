"""The dialogs in which the user answers a command.

PERF: they are imported when they open, after the first frame.
"""

import time
from typing import Any

from textual.screen import ModalScreen

from mlxctl.chat.controller.effects import AskPath, ChooseChat, ChooseModel, Confirm, EditOptions
from mlxctl.chat.controller.state import ChatState

Question = Confirm | ChooseModel | ChooseChat | EditOptions | AskPath


def dialog_for(effect: Question, chat: ChatState) -> ModalScreen[Any]:
    """Return the dialog that returns the result of the effect."""
    match effect:
        case Confirm():
            from mlxctl.chat.screens.confirm import ConfirmScreen

            return ConfirmScreen(effect.title, effect.text)
        case ChooseModel():
            from mlxctl.chat.screens.models import ModelsScreen

            return ModelsScreen(chat.backend.list_models, current=effect.current)
        case ChooseChat():
            from mlxctl.chat.screens.sessions import SessionsScreen

            return SessionsScreen(chat.autosave)
        case EditOptions():
            from mlxctl.chat.screens.settings import SettingsScreen

            return SettingsScreen(effect.options, tools_note=effect.tools_note)
        case AskPath():
            from mlxctl.chat.screens.path import PathScreen

            return PathScreen(effect.title, proposal=time.strftime(effect.proposal), hint=effect.hint)
