"""OpenAI's APIs as wire formats."""
