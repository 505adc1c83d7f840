"""The sample pool, and what is made from it."""
