"""One tool-calling turn per provider with LiteLLM."""

import json
import sys
from typing import Any

import litellm

URL, MODEL, QUESTION, RESULT = sys.argv[1:]
PARAMETERS = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
TOOL = {
    "type": "function",
    "function": {"name": "get_weather", "description": "Get the weather of a city", "parameters": PARAMETERS},
}


def turn(**asked: Any) -> str:
    """Call the tool without streaming, then stream the final answer."""
    messages: list[Any] = [{"role": "user", "content": QUESTION}]
    asked |= {"messages": messages, "api_key": "dummy", "tools": [TOOL], "max_tokens": 300}
    called = litellm.completion(**asked).choices[0].message
    messages.append(called.model_dump())
    messages += [{"role": "tool", "tool_call_id": call.id, "content": RESULT} for call in called.tool_calls]
    return "".join(chunk.choices[0].delta.content or "" for chunk in litellm.completion(**asked, stream=True))


litellm.suppress_debug_info = True
for protocol, chosen in (
    ("openai", {"model": f"openai/{MODEL}", "api_base": f"{URL}/v1", "temperature": 0}),
    ("hosted_vllm", {"model": f"hosted_vllm/{MODEL}", "api_base": f"{URL}/v1", "temperature": 0}),
    ("anthropic", {"model": f"anthropic/{MODEL}", "api_base": URL}),
):
    print(json.dumps({"protocol": protocol, "answer": turn(**chosen)}))
