"""Settings of a server."""

from dataclasses import dataclass
from enum import StrEnum


class SettingSource(StrEnum):
    """Source of a setting's value. A later one goes before an earlier one."""

    DEFAULT = "default"
    """Nobody set it."""
    FILE = "file"
    """The YAML file."""
    ENVIRONMENT = "environment"
    """A variable of the server's environment."""
    FLAG = "flag"
    """A flag of the server's command line."""
    UNKNOWN = "unknown"
    """One that this client does not know."""


class SettingType(StrEnum):
    """Type of a setting's value, which is always text."""

    TEXT = "text"
    """One line."""
    BOOLEAN = "boolean"
    """`true` or `false`."""
    INTEGER = "integer"
    """A whole number."""
    NUMBER = "number"
    """A number."""
    DURATION = "duration"
    """A number and its unit, as `10m`."""
    CHOICE = "choice"
    """One of `choices`."""
    PATH = "path"
    """A path of the server's machine; empty: none."""
    UNKNOWN = "unknown"
    """One that this client does not know."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """One setting of a server."""

    key: str
    """Name, as in the YAML file."""
    value: str
    """The value in force."""
    default_value: str
    """The value that it has when nobody sets it."""
    source: SettingSource
    """Source of the value in force."""
    group: str
    """Group that it is listed in."""
    group_label: str
    """Name of the group for people."""
    label: str
    """Name of the setting for people."""
    help: str
    """Its effect, in a sentence or two."""
    type: SettingType
    """Type of its value."""
    choices: tuple[str, ...]
    """The values of a choice."""
    minimum: str
    """Smallest value; empty: none."""
    maximum: str
    """Largest value; empty: none."""
    minimum_excluded: bool
    """`minimum` itself is too small."""
    masked: bool
    """A part of `value` is replaced by `…`, because it may be a secret."""
    restart_needed: bool
    """A change counts from the next start of the server on."""
    pending: bool
    """The file has another value, which counts from the next start on."""
    pending_value: str
    """That value."""
    locked: str
    """The reason for which no call changes it. Empty: one may."""
    environment_name: str
    """The variable that sets it in the environment."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SettingList:
    """All settings of a server."""

    settings: tuple[Setting, ...]
    """The settings, ordered by group."""
    file: str
    """Path of the file that keeps what is set, on the server's machine."""
    locked: str
    """The reason for which none can be set. Empty: they can."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangedSetting:
    """A setting that was set."""

    setting: Setting
    """The setting as it is now."""
    restart_needed: bool
    """The new value counts from the next start of the server on."""
