"""Imported GGUF files beside llama.cpp itself."""
