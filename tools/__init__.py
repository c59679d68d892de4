"""Programs for development: the reference pages and the demo model."""
