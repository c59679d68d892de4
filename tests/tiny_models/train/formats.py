"""How each student writes the call that a lesson asks for."""

import json

from .examples import Call


def hermes(call: Call) -> str:
    body = json.dumps({"name": call.name, "arguments": call.arguments}, ensure_ascii=False)
    return f"<tool_call>\n{body}\n</tool_call>"


def glm(call: Call) -> str:
    pairs = (
        f"<arg_key>{key}</arg_key>\n<arg_value>{value}</arg_value>\n" for key, value in call.arguments.items()
    )
    return f"<tool_call>{call.name}\n{''.join(pairs)}</tool_call>"


def llama(call: Call) -> str:
    return json.dumps({"name": call.name, "parameters": call.arguments}, ensure_ascii=False)


def liquid(call: Call) -> str:
    pairs = ", ".join(
        f"{key}={json.dumps(value, ensure_ascii=False)}" for key, value in call.arguments.items()
    )
    return f"<|tool_call_start|>[{call.name}({pairs})]<|tool_call_end|>"


def mistral(call: Call) -> str:
    body = json.dumps({"name": call.name, "arguments": call.arguments}, ensure_ascii=False)
    return f"[TOOL_CALLS] [{body}]"


def coder(call: Call) -> str:
    pairs = (f"<parameter={key}>\n{value}\n</parameter>\n" for key, value in call.arguments.items())
    return f"<tool_call>\n<function={call.name}>\n{''.join(pairs)}</function>\n</tool_call>"
