"""Bringing the partner up: tried again while it may come, given up with words when it cannot."""

import asyncio
from collections.abc import Awaitable, Callable

from mlxctl.errors import CapacityError, MlxctlError
from mlxctl.tui.partner import Partner, PartnerModel
from mlxctl.tui.widgets.notice import Notice

_RETRY_SECONDS = 2.0


async def open_partner(partner: Partner, *, say: Callable[[Notice], Awaitable[None]]) -> PartnerModel | None:
    """Return the model that answers, or None when there will be none; `say` gets what a person should know meanwhile."""
    last_words = ""
    while True:
        try:
            return await partner.open()
        except CapacityError as error:
            if str(error) != last_words:
                last_words = str(error)
                await say(Notice(f"{last_words}. Trying again every {_RETRY_SECONDS:g} s.", kind="warning"))
            await asyncio.sleep(_RETRY_SECONDS)
        except MlxctlError as error:
            await say(Notice(str(error), kind="error"))
            return None


def greeting(model: PartnerModel) -> list[Notice]:
    """Return the words with which a model is introduced."""
    context = f", context {model.context_length:,} tokens" if model.context_length else ""
    notices = [Notice(f"{model.name} is ready{context}.")]
    if model.is_demo:
        notices.append(Notice("This is the tiny demo model: it greets, calls tools and repeats codewords, and knows little else."))
    return notices
