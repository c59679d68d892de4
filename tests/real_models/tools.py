"""Tools as clients declare them, without `additionalProperties`, and questions for them."""

from typing import Any


def _tool(name: str, description: str, required: list[str], **properties: Any) -> dict[str, Any]:
    parameters = {"type": "object", "properties": properties, "required": required}
    return {
        "type": "function",
        "function": {"name": name, "description": description, "parameters": parameters},
    }


def _text(description: str) -> dict[str, Any]:
    return {"type": "string", "description": description}


_ITEM = {
    "type": "object",
    "properties": {"sku": {"type": "string"}, "quantity": {"type": "integer", "minimum": 1}},
    "required": ["sku", "quantity"],
}
_CUSTOMER = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "email": {"type": "string", "format": "email"}},
    "required": ["name"],
}

TOOLS: dict[str, dict[str, Any]] = {
    tool["function"]["name"]: tool
    for tool in (
        _tool(
            "get_weather",
            "Get the current weather of a city.",
            ["city"],
            city=_text("Name of the city"),
            unit={"type": "string", "enum": ["celsius", "fahrenheit"]},
        ),
        _tool(
            "send_email",
            "Send an e-mail.",
            ["to", "subject", "body"],
            to=_text("Address of the recipient"),
            subject=_text("Subject line"),
            body=_text("Text of the message"),
            cc={"type": "array", "items": {"type": "string"}, "maxItems": 3},
        ),
        _tool(
            "create_order",
            "Order goods for a customer.",
            ["customer", "items"],
            customer=_CUSTOMER,
            items={"type": "array", "items": _ITEM, "minItems": 1, "maxItems": 3},
            express={"type": "boolean"},
        ),
        _tool(
            "convert_currency",
            "Convert an amount of money.",
            ["amount", "source", "target"],
            amount={"type": "number", "minimum": 0},
            source={"type": "string", "enum": ["EUR", "USD", "GBP", "JPY"]},
            target={"type": "string", "enum": ["EUR", "USD", "GBP", "JPY"]},
        ),
        _tool(
            "set_reminder",
            "Remind the user of something.",
            ["text", "minutes"],
            text=_text("What to say"),
            minutes={"type": "integer", "minimum": 1, "maximum": 1440},
        ),
        _tool(
            "read_file",
            "Read a file of the project.",
            ["path"],
            path=_text("Path, relative to the project"),
            start_line={"type": "integer", "minimum": 1},
            end_line={"type": "integer", "minimum": 1},
        ),
        _tool(
            "create_issue",
            "Open an issue in the tracker.",
            ["title", "labels"],
            title=_text("Title of the issue"),
            labels={
                "type": "array",
                "items": {"type": "string", "enum": ["bug", "feature", "question"]},
                "maxItems": 3,
            },
            assignee={"anyOf": [{"type": "string"}, {"type": "null"}]},
        ),
        _tool(
            "translate",
            "Translate a text.",
            ["text", "language"],
            text=_text("Text to translate"),
            language=_text("Language of the result"),
        ),
    )
}
"""Tools by name."""

QUESTIONS: tuple[tuple[str, str], ...] = (
    ("get_weather", "What is the weather in Oslo?"),
    ("get_weather", "Do I need an umbrella in London today?"),
    ("get_weather", "How warm is it in Phoenix, in Fahrenheit?"),
    ("send_email", "Send an e-mail to bob@example.org with the subject Hello and the body See you tomorrow."),
    ("send_email", "Tell ann@example.com by mail that the build is green."),
    ("send_email", "Write to team@example.net that lunch is at noon, and copy eve@example.net."),
    ("create_order", "Order two of BK-1021 for Ada."),
    ("create_order", "Bob, bob@example.org, wants one PEN-7 and five CUP-3, express."),
    ("create_order", "Please order a single LAMP-9 for Grace Hopper."),
    ("convert_currency", "How much is 100 euros in US dollars?"),
    ("convert_currency", "Convert 2500 yen to pounds."),
    ("convert_currency", "I have 19.99 dollars. What is that in euros?"),
    ("set_reminder", "Remind me in 20 minutes to take the bread out of the oven."),
    ("set_reminder", "In an hour I have to call my mother. Remind me."),
    ("set_reminder", "Set a reminder to stretch in 45 minutes."),
    ("read_file", "Show me README.md."),
    ("read_file", "What do lines 10 to 20 of src/main.py say?"),
    ("read_file", "Open the file docs/index.md and summarize it."),
    ("create_issue", "Open an issue: the login page is blank. It is a bug."),
    ("create_issue", "Please file a feature request for dark mode and assign it to eve."),
    ("create_issue", "Create a question issue titled 'How do I install this?'"),
    ("translate", "Translate 'good morning' into French."),
    ("translate", "How do you say 'where is the station' in Japanese?"),
    ("translate", "Put this into German: The cat sleeps."),
    ("translate", "Translate to Spanish: I would like a coffee, please."),
)
"""Questions, each with the tool that answers it."""
