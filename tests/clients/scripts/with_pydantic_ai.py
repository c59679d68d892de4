"""One tool-calling turn per protocol with pydantic-ai."""

import json
import sys

from pydantic_ai import Agent
from pydantic_ai.models import Model
from pydantic_ai.models.anthropic import AnthropicModel
from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel
from pydantic_ai.providers.anthropic import AnthropicProvider
from pydantic_ai.providers.openai import OpenAIProvider

URL, MODEL, QUESTION, RESULT = sys.argv[1:]


def get_weather(city: str) -> str:
    """Get the weather of a city"""
    return RESULT


def turn(model: Model) -> str:
    """Run the agent with and without streaming; both answers must be equal."""
    agent = Agent(model, tools=[get_weather], model_settings={"temperature": 0, "max_tokens": 300})
    whole = agent.run_sync(QUESTION).output
    streamed = "".join(agent.run_stream_sync(QUESTION).stream_text(delta=True))
    return whole if whole == streamed else f"{whole!r} whole, {streamed!r} streamed"


openai = OpenAIProvider(base_url=f"{URL}/v1", api_key="dummy")
for protocol, chosen in (
    ("chat", OpenAIChatModel(MODEL, provider=openai)),
    ("responses", OpenAIResponsesModel(MODEL, provider=openai)),
    ("messages", AnthropicModel(MODEL, provider=AnthropicProvider(base_url=URL, api_key="dummy"))),
):
    print(json.dumps({"protocol": protocol, "answer": turn(chosen)}))
