"""The prefix cache: entries, explanations, settings."""
