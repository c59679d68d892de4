"""Pictures to what a model reads in place of words."""
