"""Operations, the HTTP service and the command line."""

__version__ = "0.1.0"
