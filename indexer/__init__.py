"""Passages, embeddings, the catalog, Chroma, sync and search."""
