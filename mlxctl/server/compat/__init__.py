"""Routes of dialects beside generation, each file with its resources."""
