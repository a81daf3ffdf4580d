# Generated from proto/recollect/v1 by scripts/client_types.py: edit that.
"""Data classes of the contract: admin, settings."""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum


class SettingSource(StrEnum):
    """Source of a setting's value. A later one goes before an earlier one."""

    DEFAULT = "default"
    """Nobody set it: its default."""
    FILE = "file"
    """The YAML file that the server was started with, or that SetSetting made."""
    ENVIRONMENT = "environment"
    """A variable of the server's environment."""
    FLAG = "flag"
    """A flag of the server's command line."""
    UNKNOWN = "unknown"
    """One that this client is too old to know."""


class SettingType(StrEnum):
    """Type of a setting's value, which is always sent as text."""

    TEXT = "text"
    """A text of one line."""
    BOOLEAN = "boolean"
    """`true` or `false`."""
    INTEGER = "integer"
    """A whole number."""
    NUMBER = "number"
    """A number."""
    DURATION = "duration"
    """A length of time: a number and its unit, of `ms`, `s`, `m`, `h` and `d`, as `10m`."""
    CHOICE = "choice"
    """One of `choices`."""
    PATH = "path"
    """A path of the server's machine; empty: none."""
    UNKNOWN = "unknown"
    """One that this client is too old to know."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """One setting of the server."""

    key: str = ""
    """Name, as in the YAML file: `idle_timeout`."""
    value: str = ""
    """The value in force, as the file writes it: `10m`. Empty may be a value (a text, or no
    path).
    """
    default_value: str = ""
    """The value that it has when nobody sets it."""
    source: SettingSource
    """The source of the value in force."""
    group: str = ""
    """Group that it is listed in: `notes`. Settings come ordered by group."""
    group_label: str = ""
    """Name of the group for people: `Notes`."""
    label: str = ""
    """Name of the setting for people: `Idle timeout`."""
    help: str = ""
    """Description of what it does, in one sentence or two."""
    type: SettingType
    """Type of its value."""
    choices: tuple[str, ...] = ()
    """The values of SettingType.CHOICE."""
    minimum: str = ""
    """Smallest value, written as a value; empty: there is none."""
    maximum: str = ""
    """Largest value, written as a value; empty: there is none."""
    minimum_excluded: bool = False
    """True if `minimum` itself is too small."""
    masked: bool = False
    """True if a part of `value` is replaced by `…`, because it may be a secret. A value that
    holds `…` is not to be set again.
    """
    restart_needed: bool = False
    """True if a change counts from the next start of the server on, instead of at once."""
    pending: bool = False
    """True if the file has another value than the one in force: it counts from the next start
    on.
    """
    pending_value: str = ""
    """That value; empty if there is none, or if it is masked."""
    locked: str = ""
    """Reason why SetSetting does not change it, in a sentence: it comes from the environment or
    a flag, or it says where data lies or who reaches the server. Empty: SetSetting changes it.
    """
    environment_name: str = ""
    """The name that sets it in the environment: `RECOLLECT_IDLE_TIMEOUT`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SettingList:
    """All settings of a server."""

    settings: tuple[Setting, ...] = ()
    """The settings, ordered by group, in the order in which they are to be shown."""
    file: str = ""
    """Path of the file that SetSetting writes, on the server's machine."""
    locked: str = ""
    """Reason why no setting can be set, in a sentence; empty: SetSetting works."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangedSetting:
    """A setting that was set."""

    setting: Setting
    """The setting as it is now."""
    restart_needed: bool = False
    """True if the new value counts from the next start of the server on."""
    retention_start_time: datetime | None = None
    """Time from which the rules of `retention` that are new delete and unindex; until then they
    do nothing. Unset: none of them waits, or another setting was set.
    """
