"""Anthropic's protocols."""
