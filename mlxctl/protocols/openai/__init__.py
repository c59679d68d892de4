"""OpenAI's wire formats."""
