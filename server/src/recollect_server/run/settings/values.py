"""Types of settings' values: what each accepts, and their text."""

import re
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import urlsplit

from pydantic import (
    AfterValidator,
    BeforeValidator,
    GetCoreSchemaHandler,
    ValidationInfo,
)
from pydantic_core import CoreSchema, core_schema

from recollect_server.backup.names import parse_keep
from recollect_server.contract import endpoints
from recollect_server.kernel.domain.setting import without_password
from recollect_server.kernel.domain.time import parse_zones
from recollect_server.retention.rule import parse_rules

FOLDER = "folder"
"""The store of logs in the data folder."""
_DURATION = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d)")
_UNITS = {"ms": 0.001, "s": 1, "m": 60, "h": 3600, "d": 86400}
_MODEL = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:/@+-]{0,127}")


def text_of(value: Any) -> str:
    """Return the value of a setting as the YAML file has it."""
    match value:
        case None:
            return ""
        case bool():
            return str(value).lower()
        case timedelta():
            return duration_text(value)
        case float() if value.is_integer():
            return str(int(value))
        case _:
            return str(value)


def duration_text(duration: timedelta) -> str:
    """Return a duration in the largest unit that divides it: `500ms`, `2s`, `10m`, `7d`."""
    milliseconds = duration // timedelta(milliseconds=1)
    units = {unit: round(1000 * seconds) for unit, seconds in _UNITS.items()}
    unit = next(
        (unit for unit in reversed(units) if milliseconds and milliseconds % units[unit] == 0), "ms"
    )
    return f"{milliseconds // units[unit]}{unit}"


def duration(text: str) -> timedelta:
    """Return the duration that a text as `90d` says. Raises ValueError."""
    value = _duration(text)
    assert isinstance(value, timedelta)
    return value


def _duration(value: object) -> object:
    if isinstance(value, str):
        match = _DURATION.fullmatch(value)
        if match is None:
            raise ValueError("is not a duration as 500ms, 2s, 10m, 3h or 7d")
        try:
            return timedelta(seconds=float(match[1]) * _UNITS[match[2]])
        except OverflowError:
            raise ValueError("is longer than any clock runs") from None
    return value


def _listen(value: str) -> str:
    addresses = endpoints.split(value)
    for address in addresses:
        if why := endpoints.problem(address):
            raise ValueError(f"{address:.100} {why}" if len(addresses) > 1 else why)
    if twice := {it for it in addresses if addresses.count(it) > 1 and not it.endswith(":0")}:
        raise ValueError(f"names {min(twice)} twice")
    return ", ".join(addresses)


def _not_empty(value: object) -> object:
    """Refuse an empty path, which `Path` takes for the current folder."""
    if value == "":
        raise ValueError("must not be empty: write . for the current folder")
    return value


def _none_if_empty(value: object) -> object:
    """Take an empty path, as an environment variable may be, for none."""
    return None if value == "" else value


@dataclass(frozen=True, slots=True)
class DurationBounds:
    """Bounds of a duration. A shorter one would keep a thread at work all the time, or let no call
    end well; for a longer one no thread can wait.
    """

    least: timedelta | None = None
    most: timedelta | None = None

    def check(self, value: timedelta) -> timedelta:
        """Return the value. Raises ValueError for one beyond the bounds."""
        if self.least is not None and value < self.least:
            raise ValueError(f"must be {duration_text(self.least)} or longer")
        if self.most is not None and value > self.most:
            raise ValueError(f"must be {duration_text(self.most)} or shorter")
        return value

    def __get_pydantic_core_schema__(
        self, source: Any, handler: GetCoreSchemaHandler
    ) -> CoreSchema:
        """Check what the validators before this one return."""
        return core_schema.no_info_after_validator_function(self.check, handler(source))


def _names(value: object) -> object:
    return ", ".join(map(str, value)) if isinstance(value, (list, tuple)) else value


def _rules(value: object) -> object:
    return "; ".join(map(str, value)) if isinstance(value, (list, tuple)) else value


def _retention(value: str) -> str:
    return "; ".join(rule.text for rule in parse_rules(value))


def _zones(value: str) -> str:
    parse_zones(value)
    return value


def _keep(value: str) -> str:
    return " ".join(rule.text for rule in parse_keep(value))


def _models(value: str) -> str:
    names = [name.strip() for name in value.split(",") if name.strip()]
    if wrong := [name for name in names if not _MODEL.fullmatch(name)]:
        raise ValueError(
            f"names no model: {wrong[0]!r} is not one word of at most 128 letters, digits and . _ : / @ + -"
        )
    return ", ".join(dict.fromkeys(names)) or "any"


def _url(
    value: str, example: str = "http://127.0.0.1:11434/v1", key: str = "OPENAI_API_KEY"
) -> str:
    parts = urlsplit(value)
    if (
        parts.scheme not in ("http", "https")
        or not parts.hostname
        or not value.isprintable()
        or " " in value
    ):
        raise ValueError(f"must be a URL as {example}")
    if parts.username or parts.password:
        raise ValueError(f"must hold no user or password: a key is read from {key}")
    return value


def _one_line(value: str) -> str:
    if value != value.strip() or not value.isprintable():
        raise ValueError("must be one line without space around it")
    return value


class LogStoreName(str):
    """Place of the logs, as people may read it: a URL without its password, which `url` has."""

    __slots__ = ("url",)
    url: str

    def __new__(cls, value: object) -> "LogStoreName":
        """Check the text. Raises ValueError."""
        if isinstance(value, LogStoreName):
            return value
        if not isinstance(value, str) or not (
            value == FOLDER or value.startswith(("postgresql://", "postgres://"))
        ):
            raise ValueError("must be folder, or a URL as postgresql://user@host/database")
        if not value.isprintable() or " " in value:
            raise ValueError("must be one word: write a space in a URL as %20")
        name = super().__new__(cls, without_password(value))
        name.url = value
        return name

    @classmethod
    def __get_pydantic_core_schema__(cls, *_: object) -> CoreSchema:
        return core_schema.no_info_plain_validator_function(cls)


def _collector(value: str) -> str:
    return _url(value, "http://127.0.0.1:4318", "OTEL_EXPORTER_OTLP_HEADERS") if value else value


def _bucket(value: str, info: ValidationInfo) -> str:
    if value:
        _url(value, "https://s3.example.org/bucket", "AWS_SECRET_ACCESS_KEY")
        parts = urlsplit(value)
        if not parts.path.strip("/"):
            raise ValueError("names no bucket: https://s3.example.org/bucket does")
        is_kept = parts.scheme == "https" or info.data.get("insecure_plaintext", True)
        if not is_kept and not endpoints.is_local(f"{parts.hostname}:0"):
            raise ValueError(
                "would send backups over the network in plain text: write https://, or set"
                " insecure_plaintext to true where the network itself is trusted"
            )
    return value


def _http(value: str) -> str:
    """Check the address of pages for programs; empty for none."""
    if value and (why := endpoints.problem(value)):
        raise ValueError(why)
    if value.startswith(endpoints.UNIX) or "," in value:
        raise ValueError("must be one HOST:PORT as 127.0.0.1:9464")
    return value


def _needs_tls(value: str, info: ValidationInfo) -> str:
    """Refuse an address that other machines reach, unless a certificate or a proxy protects it."""
    if not value or info.data.get("tls_cert") or info.data.get("insecure_plaintext", True):
        return value
    for address in endpoints.split(value):
        if not endpoints.is_local(address):
            raise ValueError(
                f"{address} can be reached from other machines, so it needs TLS: name a"
                " certificate and its key with --tls-cert and --tls-key, or give"
                " --insecure-plaintext true where a proxy ends TLS before it; and it needs a"
                " token: `recollect-server token create --kind brain`"
            )
    return value


Duration = Annotated[timedelta, BeforeValidator(_duration)]
Folder = Annotated[Path, BeforeValidator(_not_empty)]
File = Annotated[Path | None, BeforeValidator(_none_if_empty)]
ListenAddresses = Annotated[
    str, BeforeValidator(_names), AfterValidator(_listen), AfterValidator(_needs_tls)
]
HttpAddress = Annotated[str, AfterValidator(_http)]
ProtectedHttpAddress = Annotated[HttpAddress, AfterValidator(_needs_tls)]
CollectorUrl = Annotated[str, AfterValidator(_collector)]
BucketUrl = Annotated[str, AfterValidator(_bucket)]
ModelUrl = Annotated[str, AfterValidator(_url)]
ModelNames = Annotated[str, BeforeValidator(_names), AfterValidator(_models)]
OneLine = Annotated[str, AfterValidator(_one_line)]
RetentionRules = Annotated[str, BeforeValidator(_rules), AfterValidator(_retention)]
ZonesOfSpaces = Annotated[str, BeforeValidator(_rules), AfterValidator(_zones)]
BackupRules = Annotated[str, AfterValidator(_keep)]
