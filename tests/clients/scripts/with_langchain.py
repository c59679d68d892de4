"""One tool-calling turn per protocol with LangChain."""

import json
import sys

from langchain_anthropic import ChatAnthropic
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import BaseMessage, HumanMessage
from langchain_core.tools import tool
from langchain_ollama import ChatOllama
from langchain_openai import ChatOpenAI

URL, MODEL, QUESTION, RESULT = sys.argv[1:]


@tool
def get_weather(city: str) -> str:
    """Get the weather of a city"""
    return RESULT


def turn(model: BaseChatModel) -> str:
    """Call the tool without streaming, then stream the final answer."""
    bound = model.bind_tools([get_weather])
    messages: list[BaseMessage] = [HumanMessage(QUESTION)]
    called = bound.invoke(messages)
    messages += [called, *(get_weather.invoke(call) for call in called.tool_calls)]
    return "".join(chunk.text for chunk in bound.stream(messages))


for protocol, chosen in (
    ("chat", ChatOpenAI(model=MODEL, base_url=f"{URL}/v1", api_key="dummy", temperature=0)),
    (
        "responses",
        ChatOpenAI(model=MODEL, base_url=f"{URL}/v1", api_key="dummy", temperature=0, use_responses_api=True),
    ),
    ("messages", ChatAnthropic(model=MODEL, base_url=URL, api_key="dummy", max_tokens=300)),
    ("ollama", ChatOllama(model=MODEL, base_url=URL, temperature=0)),
):
    print(json.dumps({"protocol": protocol, "answer": turn(chosen)}))
