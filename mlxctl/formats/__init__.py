"""Text formats of model families: prompts in, answers out, and their grammars."""
