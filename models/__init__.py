"""Data types, the Markdown format, settings and errors."""
