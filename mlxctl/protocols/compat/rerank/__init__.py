"""Reranking, in the shapes of Jina, Cohere, Voyage and TEI."""
