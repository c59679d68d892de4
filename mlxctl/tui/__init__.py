"""The terminal: chat with a model, here or behind a URL.

Knows requests and events; neither HTTP nor the engine.

What the first frame needs is imported with the room; the way to the model is imported behind it.
"""
