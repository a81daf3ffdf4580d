"""The settings of a running server: listed, changed in their file, and applied where possible."""

import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import structlog

from recollect_server.kernel.domain.errors import InvalidField, StorageUnavailable, Violation
from recollect_server.kernel.domain.live import Holder
from recollect_server.kernel.domain.setting import (
    MASK,
    CannotEdit,
    Setting,
    SettingChange,
    SettingList,
)
from recollect_server.run.settings import Settings, WrongSettings, own_file
from recollect_server.run.settings.catalogue import described, locked, masked
from recollect_server.run.settings.environment import nearest_name
from recollect_server.run.settings.values import text_of

log = structlog.get_logger("recollect.settings")

LIVE = frozenset(
    {
        *("max_conversation_messages", "max_conversation_bytes"),
        *("update_retention", "max_updates", "search_timeout", "slow_call", "log_level"),
        *("max_working_turns", "max_working_tokens", "context_warm_turns"),
        *("profile_tokens", "recall", "excerpt_tokens", "idle_timeout"),
        *("context_hot_tokens", "context_warm_tokens", "context_cold_tokens", "context_tokens"),
        "time_zone",
        *("sweep_interval", "abbreviation_daily_calls", "abbreviation_daily_tokens"),
        *("abbreviation_daily_cost", "abbreviation_input_price", "abbreviation_output_price"),
        *(
            "acknowledgement",
            "retention",
            "retention_grace",
            "title_turns",
            "first_title_turn",
            "sender_rate",
            "sender_burst",
            "token_calls",
            "token_burst",
        ),
        *("token_bytes", "token_streams", "space_calls", "space_burst", "space_bytes"),
        *("space_streams", "space_conversations", "space_stored_bytes", "embedding_idle"),
    }
)
"""Settings that are read at each use, so that a change counts at once. All others shape what is
built at the start: threads, addresses, models, caches.
"""


class SettingsAdministration:
    """The settings that a server runs with. Safe to call from any thread."""

    def __init__(self, live: Holder[Settings]) -> None:
        """`live` holds the settings that are in force; only this changes them."""
        self._live = live
        self._file = (live.now.origin.file or own_file(live.now.data_dir)).absolute()
        self._guard = threading.Lock()  # one change of the file at a time

    def list(self) -> SettingList:
        """Return all settings, with what the file has for the next start."""
        try:
            at_next_start, problem = self._load(self._file), ""
        except WrongSettings as error:
            at_next_start = None
            problem = (
                f"{self._file} would not be read at the next start: correct it:"
                f" {self._reason(error)}"
            )
        return SettingList(self._described(at_next_start), str(self._file), problem)

    def set(self, key: str, value: str) -> SettingChange:
        """Set a setting in the file, and apply it if it can be. `value` is text, as in the file.

        Raises InvalidField, which names `key` or `value`, and StorageUnavailable; then nothing has
        changed.
        """
        self._check_key(key)
        if MASK in value and key.endswith("_url"):
            raise InvalidField.of("value", f"holds {MASK}, which stands for a part that is hidden")
        return self._change(key, value)

    def reset(self, key: str) -> SettingChange:
        """Take a setting out of the file, so that its default counts. Raises as `set`."""
        self._check_key(key)
        return self._change(key, None)

    def _check_key(self, key: str) -> None:
        if key not in Settings.model_fields:
            near = nearest_name(key, Settings.model_fields)
            advice = (
                f"do you mean {near}?"
                if near
                else "ListSettings (recollect admin settings list) names all"
            )
            raise InvalidField.of("key", f"is no setting: {advice}")
        if reason := locked(self._live.now, key, self._file):
            raise InvalidField.of("key", f"{key} cannot be set by a call: {reason}")

    def _change(self, key: str, value: str | None) -> SettingChange:
        # Only a server whose settings are changed holds the parser.
        import yaml

        from recollect_server.run.settings import yaml_file

        with self._guard:
            try:
                text = self._text()
                before = self._current()
                changed = (
                    yaml_file.without(text, key)
                    if value is None
                    else yaml_file.with_value(text, key, _plain(key, value))
                )
                new = yaml_file.write_beside(self._file, changed)
                try:
                    after = self._validated(key, new)
                    self._check_edit(before, after, key, is_reset=value is None)
                    yaml_file.replace(self._file, new)
                except BaseException:
                    new.unlink(missing_ok=True)
                    raise
            except (CannotEdit, yaml.YAMLError) as error:
                raise InvalidField.of(
                    "key", f"{self._file} cannot be changed by a call: {error}: edit it by hand"
                ) from error
            except OSError as error:
                raise StorageUnavailable(
                    f"{self._file} cannot be written: {error.strerror or error}"
                ) from error
            in_force = key in LIVE or getattr(after, key) == getattr(self._live.now, key)
            self._apply(key, after, in_force=in_force)
            log.info("setting_changed", key=key, in_force=in_force)
            setting = next(it for it in self._described(after) if it.key == key)
        return SettingChange(setting, in_force)

    def _apply(self, key: str, after: Settings, *, in_force: bool) -> None:
        if not in_force:
            return
        now = self._live.now
        applied = now.model_copy(update={key: getattr(after, key)})
        in_file = now.origin.in_file - {key} | after.origin.in_file & {key}
        applied.take_origin(replace(now.origin, in_file=in_file))
        self._live.set(applied)

    def _text(self) -> str:
        """Return the text of the file. Raises StorageUnavailable, CannotEdit."""
        from recollect_server.run.settings import yaml_file

        try:
            return yaml_file.read(self._file)
        except OSError as error:
            reason = error.strerror or error
            raise StorageUnavailable(
                f"{self._file} cannot be read ({reason}): let the server's user read it"
            ) from error

    def _current(self) -> Settings:
        """Return the settings that the file has now. Raises InvalidField if it has errors."""
        try:
            return self._load(self._file)
        except WrongSettings as error:
            raise InvalidField.of(
                "key", f"{self._file} has errors, correct them first: {self._reason(error)}"
            ) from error

    def _reason(self, error: WrongSettings) -> str:
        """Return what is wrong with the file in one line, without its name."""
        return str(error).removeprefix(f"{self._file}: ").replace("\n", "; ")

    def _validated(self, key: str, file: Path) -> Settings:
        """Load the settings as the next start will. Raises InvalidField, CannotEdit."""
        try:
            return self._load(file)
        except WrongSettings as error:
            if not error.problems:  # the rest of the file depends on what was changed
                raise CannotEdit("it would not be valid any more") from error
            violations = [
                Violation("value", problem if name == key else f"{name} {problem}")
                for name, problem in error.problems.items()
            ]
            raise InvalidField(*violations) from error

    def _check_edit(self, before: Settings, after: Settings, key: str, *, is_reset: bool) -> None:
        """Check that no other setting has changed, and that one that was reset is gone: the file
        may have parts that refer to others. Raises CannotEdit.
        """
        if is_reset and key in after.origin.in_file:
            raise CannotEdit(f"{key} has its value from another part of it")
        for name in Settings.model_fields:
            if name != key and getattr(before, name) != getattr(after, name):
                raise CannotEdit(f"{name} would change too")

    def _load(self, file: Path) -> Settings:
        """Return the settings as a start with a file would have them. Raises WrongSettings."""
        flags: dict[str, Any] = dict(self._live.now.origin.flags)
        if not file.is_file():
            # A file that is not there is empty; the folder's own is not there either.
            return Settings.load(None, flags)
        return Settings.load(file, flags)

    def _described(self, at_next_start: Settings | None) -> tuple[Setting, ...]:
        """Describe the settings in force, and those of the next start where they are others."""
        rows = []
        for it in described(self._live.now, self._file):
            row = replace(it, restart_needed=it.key not in LIVE)
            if at_next_start is not None:
                value = text_of(getattr(at_next_start, it.key))
                if value != text_of(getattr(self._live.now, it.key)):
                    row = replace(row, pending=True, pending_value=masked(it.key, value))
            rows.append(row)
        return tuple(rows)


def _plain(key: str, value: str) -> str | float | bool:
    """Return a text as the value that a person would write in the file: numbers and truths bare.
    What is none is left to the checks of the start.
    """
    kind = Settings.model_fields[key].annotation
    try:
        if kind is int:
            return int(value)
        if kind is float:
            number = float(value)
            return int(number) if number.is_integer() else number
    except (ValueError, OverflowError):
        return value
    if kind is bool and value.lower() in ("true", "false"):
        return value.lower() == "true"
    return value
