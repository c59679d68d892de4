"""Spoken conversations over a WebSocket."""
