"""Keys, limits and settings that an operator changes."""
