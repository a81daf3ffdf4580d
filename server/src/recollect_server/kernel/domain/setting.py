"""A setting as it is described to people: its value, its source, and what may be done with it.

The URL of a database may hold a password: people see it without.
"""

import re
from dataclasses import dataclass
from enum import StrEnum

MASK = "…"
"""Stands in a value for a part that may be a secret."""


class CannotEdit(Exception):
    """A file of settings has a form in which its values cannot be changed one by one."""


class ValueType(StrEnum):
    TEXT = "text"
    BOOLEAN = "boolean"
    INTEGER = "integer"
    NUMBER = "number"
    DURATION = "duration"
    CHOICE = "choice"
    PATH = "path"


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """One setting. Values are texts, as the YAML file has them."""

    key: str
    value: str
    default: str
    source: str
    """`default`, `file`, `environment` or `flag`."""
    group: str
    group_label: str
    label: str
    help: str
    type: ValueType
    choices: tuple[str, ...] = ()
    minimum: str = ""
    maximum: str = ""
    minimum_excluded: bool = False
    masked: bool = False
    restart_needed: bool = True
    pending: bool = False
    """The file has another value, which counts from the next start on."""
    pending_value: str = ""
    locked: str = ""
    """Reason for which no call changes it; empty: one may."""
    environment_name: str = ""


@dataclass(frozen=True, slots=True)
class SettingList:
    """All settings, in the order in which they are shown."""

    settings: tuple[Setting, ...]
    file: str
    """Path of the file that keeps what is set."""
    locked: str = ""
    """Reason for which none can be set; empty: they can."""


@dataclass(frozen=True, slots=True)
class SettingChange:
    setting: Setting
    in_force: bool
    """The server runs with the new value; False: from its next start on."""


_PASSWORD = re.compile(r"^([^/]*//[^:/@?]*:|(?![^/]*//)[^/@?]*:).*@")
_PARAMETER = re.compile(r"([?&][^=&]*pass[^=&]*=)[^&]*", re.IGNORECASE)


def without_password(url: str) -> str:
    """Return a URL with `***` for its password, whatever else is wrong with it."""
    return _PARAMETER.sub(r"\1***", _PASSWORD.sub(r"\1***@", url))
