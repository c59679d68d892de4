"""Schemas of structured output as applications declare them, each with a question."""

from typing import Any

Schema = dict[str, Any]
_TEXT: Schema = {"type": "string"}


def _object(optional: tuple[str, ...] = (), **properties: Any) -> Schema:
    required = [name for name in properties if name not in optional]
    return {"type": "object", "properties": properties, "required": required}


def _list(items: Schema, **bounds: int) -> Schema:
    return {"type": "array", "items": items, **bounds}


def _one_of(*values: str | int | bool) -> Schema:
    return {"enum": list(values)}


SHORT: dict[str, tuple[str, Schema]] = {
    "sentiment": (
        "Rate this review: 'The soup was cold and the waiter was rude.'",
        _object(sentiment=_one_of("positive", "neutral", "negative"), stars={"enum": [1, 2, 3, 4, 5]}),
    ),
    "moderation": (
        "Is this message allowed? 'Have a nice day!'",
        _object(
            violence={"type": "boolean"},
            hate={"type": "boolean"},
            category={"anyOf": [_one_of("violence", "hate", "self_harm"), {"type": "null"}]},
        ),
    ),
    "date": (
        "Ada Lovelace was born on 10 December 1815. Extract the date.",
        _object(
            year={"type": "integer", "minimum": 1000, "maximum": 2100},
            month={"type": "integer", "minimum": 1, "maximum": 12},
            day={"type": "integer", "minimum": 1, "maximum": 31},
        ),
    ),
    "routing": (
        "My invoice is wrong and I am angry. Route this ticket.",
        _object(
            department=_one_of("billing", "technical_support", "sales"),
            priority=_one_of("low", "medium", "high"),
            tags=_list(_one_of("refund", "invoice", "angry", "new_customer"), maxItems=2),
        ),
    ),
    "coordinates": (
        "Where is Oslo? Give it as a GeoJSON point.",
        _object(
            type={"const": "Point"},
            coordinates=_list({"type": "integer", "minimum": -180, "maximum": 180}, minItems=2, maxItems=2),
        ),
    ),
    "phone": (
        "The number of the office is +49 30 1234567. Extract it.",
        _object(
            country_code={"type": "string", "pattern": r"^\+[0-9]{1,3}$"},
            number={"type": "string", "pattern": "^[0-9]{4,10}$"},
        ),
    ),
}
"""Schemas whose answers end within some 40 tokens, by name."""

_STEP = _object(explanation=_TEXT, output=_TEXT)
_NODE = _object(
    ("children",),
    type=_one_of("div", "button", "header", "section"),
    label=_TEXT,
    children=_list({"$ref": "#/$defs/node"}),
)
_PERSON = _object(("email",), name=_TEXT, email={"type": "string", "format": "email"})

LONG: dict[str, tuple[str, Schema]] = {
    "calendar event": (
        "Alice and Bob meet on Friday for a science fair. Extract the event.",
        _object(name=_TEXT, date=_TEXT, participants=_list(_TEXT, maxItems=5)),
    ),
    "math steps": (
        "Solve 8x + 7 = -23 step by step.",
        _object(steps=_list(_STEP), final_answer=_TEXT),
    ),
    "interface tree": (
        "Make the interface of a login form.",
        {"$ref": "#/$defs/node", "$defs": {"node": _NODE}},
    ),
    "paper": (
        "Summarize the paper 'Attention Is All You Need' by Vaswani and others.",
        _object(title=_TEXT, authors=_list(_TEXT, maxItems=4), abstract={"type": "string", "maxLength": 200}),
    ),
    "invoice": (
        "Invoice 2026-17 of ACME: two lamps for 20 euros each, one desk for 150 euros.",
        _object(
            number=_TEXT,
            currency=_one_of("EUR", "USD"),
            lines=_list(
                _object(description=_TEXT, quantity={"type": "integer"}, price={"type": "number"}),
                maxItems=4,
            ),
            total={"type": "number"},
        ),
    ),
    "bug report": (
        "The app crashes when I open the settings on Android 15. Make a bug report.",
        _object(
            title={"type": "string", "maxLength": 80},
            severity=_one_of("low", "medium", "high", "critical"),
            steps=_list({"type": "string", "maxLength": 80}, minItems=1, maxItems=4),
            os=_object(name=_TEXT, version=_TEXT),
        ),
    ),
    "recipe": (
        "Give me a recipe for pancakes.",
        _object(
            name=_TEXT,
            servings={"type": "integer", "minimum": 1, "maximum": 12},
            ingredients=_list(_object(name=_TEXT, amount=_TEXT), maxItems=5),
        ),
    ),
    "booking": (
        "Book a double room in Rome from 3 to 5 May for Ada Lovelace, with breakfast.",
        _object(
            guest=_PERSON,
            city=_TEXT,
            check_in={"type": "string", "format": "date"},
            check_out={"type": "string", "format": "date"},
            room=_one_of("single", "double", "suite"),
            breakfast={"type": "boolean"},
        ),
    ),
    "contacts": (
        "Extract the people: Ada (ada@example.org) and Bob, who has no e-mail.",
        _object(people=_list(_PERSON, maxItems=3)),
    ),
    "résumé": (
        "Ada worked at ACME from 2019 to 2023 as an engineer and knows Python. Make a résumé.",
        _object(
            basics=_PERSON,
            work=_list(_object(("end",), company=_TEXT, position=_TEXT, start=_TEXT, end=_TEXT), maxItems=2),
            skills=_list(_TEXT, maxItems=3),
        ),
    ),
    "query": (
        "Which customers in Berlin ordered more than 100 euros?",
        _object(
            table=_one_of("customers", "orders"),
            conditions=_list(
                _object(
                    column=_TEXT,
                    operator=_one_of("=", "<", ">", "<=", ">=", "!="),
                    value={"anyOf": [{"type": "string"}, {"type": "number"}]},
                ),
                maxItems=3,
            ),
        ),
    ),
    "commit": (
        "Write a commit message: the parser read past the end of the file.",
        _object(
            type=_one_of("feat", "fix", "docs", "refactor"),
            subject={"type": "string", "maxLength": 72},
            breaking={"type": "boolean"},
        ),
    ),
    "translations": (
        "Translate 'Thank you' into French, German and Spanish.",
        _object(fr=_TEXT, de=_TEXT, es=_TEXT),
    ),
    "product": (
        "Describe a red cotton T-shirt, size M, for 19.90 euros, as a product.",
        _object(
            ("color",),
            name=_TEXT,
            color=_TEXT,
            offer=_object(price={"type": "number"}, currency={"type": "string", "pattern": "^[A-Z]{3}$"}),
            sizes=_list(_one_of("S", "M", "L", "XL"), minItems=1, maxItems=4),
        ),
    ),
}
"""Schemas with texts and lists, some without a bound, by name."""

SCHEMAS = {**SHORT, **LONG}


def response_format(name: str) -> dict[str, Any]:
    """Return the schema as a `response_format` of OpenAI."""
    schema = {"name": name.replace(" ", "_").replace("é", "e"), "schema": SCHEMAS[name][1]}
    return {"type": "json_schema", "json_schema": schema}
