"""Texts to vectors, in the engine: which are next (`queue`), what is computed (`embedder`, `pooling`),
between what (`desk`).
"""
