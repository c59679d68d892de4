"""Anthropic's Messages API as a wire format."""
