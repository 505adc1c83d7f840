"""Bytes and text: decoding that loses nothing, and what of it can be shown."""

from __future__ import annotations

BOM = b"\xef\xbb\xbf"


def decode(data: bytes) -> str:
    """Text that encodes back to exactly *data*, whatever the bytes."""
    return data.decode("utf-8", "surrogateescape")


def readable(text: str) -> str:
    """*text* with undecodable bytes shown as U+FFFD, fit for JSON."""
    return text if text.isascii() else text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def is_utf8(data: bytes) -> bool:
    """Whether *data* is valid UTF-8."""
    if data.isascii():
        return True
    try:
        data.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True
