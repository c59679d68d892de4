"""Trains tiny models with one tool-call format each: `python -m tests.tiny_models.train`.

All learn from the same generated `examples`; `trained_models` has architecture, template and format of each.
Prompts are rendered by the adapter that later serves the model. Measured abilities are stored beside the
weights in `tests/tiny_models/trained`.
"""
