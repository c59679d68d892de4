"""OpenAI's Realtime API: events of a WebSocket for spoken conversations. Pure.

The names of the events are those of the general availability of August 2025, not of the beta before it.
"""
