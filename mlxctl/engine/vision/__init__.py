"""Images to states that a language model takes in place of token embeddings."""
