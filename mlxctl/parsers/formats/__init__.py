"""One file per tool-call or thinking format."""
