"""LM Studio: its own chat, OpenAI's answers with statistics, models."""
