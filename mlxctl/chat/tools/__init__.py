"""Tools that the chat runs for the model."""
