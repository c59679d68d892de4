"""Models: lists, loading, downloads, LoRA adapters."""
