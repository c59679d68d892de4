"""Chat templates: rendering, limits, and what shapes of conversation they take. Pure."""
