"""The tool-call formats, as writers."""

import json

from .examples import ExpectedCall


def hermes(call: ExpectedCall) -> str:
    body = json.dumps({"name": call.name, "arguments": call.arguments}, ensure_ascii=False)
    return f"<tool_call>\n{body}\n</tool_call>"


def glm(call: ExpectedCall) -> str:
    pairs = (
        f"<arg_key>{key}</arg_key>\n<arg_value>{value}</arg_value>\n" for key, value in call.arguments.items()
    )
    return f"<tool_call>{call.name}\n{''.join(pairs)}</tool_call>"


def llama(call: ExpectedCall) -> str:
    return json.dumps({"name": call.name, "parameters": call.arguments}, ensure_ascii=False)


def liquid(call: ExpectedCall) -> str:
    pairs = ", ".join(
        f"{key}={json.dumps(value, ensure_ascii=False)}" for key, value in call.arguments.items()
    )
    return f"<|tool_call_start|>[{call.name}({pairs})]<|tool_call_end|>"


def mistral(call: ExpectedCall) -> str:
    body = json.dumps({"name": call.name, "arguments": call.arguments}, ensure_ascii=False)
    return f"[TOOL_CALLS] [{body}]"


def coder(call: ExpectedCall) -> str:
    pairs = (f"<parameter={key}>\n{value}\n</parameter>\n" for key, value in call.arguments.items())
    return f"<tool_call>\n<function={call.name}>\n{''.join(pairs)}</function>\n</tool_call>"
