"""Ollama: chat, generate, embeddings and model lists."""
