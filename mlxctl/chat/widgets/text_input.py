"""Text inputs that apply keys in the order of typing."""

from textual import events
from textual.widget import Widget
from textual.widgets import Input


async def run_own_binding(widget: Widget, event: events.Key) -> None:
    """Run the widget's binding of a key, and end the event.

    Does nothing without a binding. Textual runs bindings after the event has left the widget: keys of a fast
    typist, a keyboard macro or a pause would be applied after letters that follow them. Call it in `on_key`.
    """
    if event.is_printable:
        return
    active = widget.screen.active_bindings.get(event.key)
    if active is None or active.node is not widget or active.binding.priority:
        return
    if await widget.app.run_action(active.binding.action, widget):
        event.stop()
        event.prevent_default()


class TextInput(Input):
    """One line of text."""

    async def on_key(self, event: events.Key) -> None:
        """Edit and submit before later keys are inserted."""
        await run_own_binding(self, event)
