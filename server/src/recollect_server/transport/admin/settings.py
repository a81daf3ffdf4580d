"""AdminService: the settings."""

from typing import Protocol

from recollect.v1 import admin_pb2
from recollect.v1 import admin_service_pb2 as api

from recollect_server.domain.setting import Setting, SettingChange, SettingList
from recollect_server.transport.handling import Call


class RunningSettings(Protocol):
    def list(self) -> SettingList:
        """Return all settings."""

    def set(self, key: str, value: str) -> SettingChange:
        """Set a setting. Raises InvalidField, StorageUnavailable."""

    def reset(self, key: str) -> SettingChange:
        """Let a setting have its default again. Raises InvalidField, StorageUnavailable."""


class SettingHandlers:
    def __init__(self, settings: RunningSettings) -> None:
        self._settings = settings

    def ListSettings(
        self, request: api.ListSettingsRequest, call: Call
    ) -> api.ListSettingsResponse:
        listed = self._settings.list()
        return api.ListSettingsResponse(
            settings=map(setting_to, listed.settings), file=listed.file, locked=listed.locked
        )

    def SetSetting(self, request: api.SetSettingRequest, call: Call) -> api.SetSettingResponse:
        changed = (
            self._settings.reset(request.key)
            if request.reset
            else self._settings.set(request.key, request.value)
        )
        return api.SetSettingResponse(
            setting=setting_to(changed.setting), restart_needed=not changed.in_force
        )


def setting_to(it: Setting) -> admin_pb2.Setting:
    return admin_pb2.Setting(
        key=it.key,
        value=it.value,
        default_value=it.default,
        source=admin_pb2.SettingSource.Value(f"SETTING_SOURCE_{it.source.upper()}"),
        group=it.group,
        group_label=it.group_label,
        label=it.label,
        help=it.help,
        type=admin_pb2.SettingType.Value(f"SETTING_TYPE_{it.type.upper()}"),
        choices=it.choices,
        minimum=it.minimum,
        maximum=it.maximum,
        minimum_excluded=it.minimum_excluded,
        masked=it.masked,
        restart_needed=it.restart_needed,
        pending=it.pending,
        pending_value=it.pending_value,
        locked=it.locked,
        environment_name=it.environment_name,
    )
