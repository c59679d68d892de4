"""Image encoding: states that replace token embeddings in a language model."""
