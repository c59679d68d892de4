"""Trains tiny models to call tools, each in a format of its own: `python -m tests.tiny_models.train`.

The lessons are the same for all (`lessons`), generated from a seed; a student (`students`) says by which
architecture, template and format it learns them. What they learn is rendered by the adapter that later serves
them, so practice and service agree. What each was measured to be able to do lies beside its weights, in
`tests/tiny_models/trained`.
"""
