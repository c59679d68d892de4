"""Unions of Structs whose `type` is not their first field."""


class JsonUnion:
    """Base of the unions of JSON types.

    Its subclasses are unions, their subclasses are the members. msgspec writes the tag of a tagged union
    first, but OpenAI's items and calls begin with their id. Members are Structs with a `type: Literal[...]`;
    `/openapi.json` lists them as alternatives.
    """

    __slots__ = ()
