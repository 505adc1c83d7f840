"""What can be asked: a query, its filters, and how the answer should look. Unknown names are refused, never ignored."""

from __future__ import annotations

import datetime as dt
import re
import unicodedata
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, model_validator

Mode = Literal["hybrid", "semantic", "lexical"]
TextForm = Literal["full", "preview", "none"]
LONGEST_QUERY = 20_000
"""Characters; longer ones are refused."""


def _not_blank(text: str) -> str:
    """At least one character that can be seen (Unicode categories C and Z cannot)."""
    if not any(unicodedata.category(c)[0] not in "CZ" for c in text):
        raise ValueError("it is blank")
    return text


def _asks_something(text: str) -> str:
    try:
        return _not_blank(text)
    except ValueError as error:
        raise ValueError("it is blank; write what the spark was about") from error


def _encodable(text: str) -> str:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise ValueError("it holds a lone surrogate, which is no character") from error
    return text


def _folded(value: Any) -> Any:
    return (
        [unicodedata.normalize("NFC", v).casefold() if isinstance(v, str) else v for v in value]
        if isinstance(value, list | tuple)
        else value
    )


def _calendar_day(value: Any) -> Any:
    """Only YYYY-MM-DD: pydantic alone would also read numbers as seconds since 1970."""
    if isinstance(value, str) and _DAY.fullmatch(value):
        return dt.date.fromisoformat(value)
    if value is None or (isinstance(value, dt.date) and not isinstance(value, dt.datetime)):
        return value
    raise ValueError("it is no date; write YYYY-MM-DD")


_DAY = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
Text = Annotated[str, AfterValidator(_encodable)]
Words = Annotated[tuple[Annotated[Text, AfterValidator(_not_blank)], ...], BeforeValidator(_folded), Field(min_length=1)]
Day = Annotated[dt.date, BeforeValidator(_calendar_day)]


class Filters(BaseModel):
    """Which entries may answer: any of each list, all of the filters; dates are the entry's own, inclusive.

    Values match whatever their case. `kind` "swarm" stands for every "swarm-…"; `source` is a part of a source.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    tier: Annotated[tuple[Literal["active", "archive"], ...], BeforeValidator(_folded), Field(min_length=1)] | None = None
    kind: Words | None = None
    tags: Words | None = None
    verdict: Annotated[tuple[Literal["absorb", "park", "release"], ...], BeforeValidator(_folded), Field(min_length=1)] | None = None
    signal: Words | None = None
    pool: Words | None = None
    source: Annotated[Text, AfterValidator(_not_blank)] | None = None
    since: Day | None = None
    until: Day | None = None

    @model_validator(mode="after")
    def _in_order(self) -> Filters:
        if self.since and self.until and self.since > self.until:
            raise ValueError("since lies after until")
        return self


class RecallRequest(BaseModel):
    """A question to both tiers. `limit` counts entries; more than there are gives all there are.

    `explain` adds to each hit what its score is made of, and to the answer the next few entries that just missed it.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    query: Annotated[Text, AfterValidator(_asks_something), Field(max_length=LONGEST_QUERY)]
    mode: Mode = "hybrid"
    limit: Annotated[int, Field(ge=1, strict=True)] = 10
    text: TextForm = "full"
    explain: Annotated[bool, Field(strict=True)] = False
    filters: Filters = Filters()
