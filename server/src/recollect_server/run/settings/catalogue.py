"""The settings for people: their groups, types and ranges, and which of them a call may change.

Names, defaults, bounds and sentences come from the declarations in `settings`; what stands here is
the order in which people look for them, and what only the operator of the machine decides.
"""

from datetime import timedelta
from pathlib import Path
from types import NoneType
from typing import Any, Literal, get_args, get_origin
from urllib.parse import urlsplit, urlunsplit

import annotated_types
from pydantic.fields import FieldInfo

from recollect_server.kernel.domain.setting import MASK, Setting, ValueType, without_password
from recollect_server.run.settings import Settings, SettingSource
from recollect_server.run.settings.environment import environment_name
from recollect_server.run.settings.values import DurationBounds, text_of

GROUPS: dict[str, tuple[str, tuple[str, ...]]] = {
    "server": (
        "Server and network",
        (
            *("listen", "tls_cert", "tls_key", "client_ca", "insecure_plaintext", "auth"),
            *("metrics", "traces", "health_listen", "data_dir"),
            *("backup_dir", "backup_keep", "backup_url", "backup_key_file", "store", "space"),
            *("store_connections", "store_prepared_statements"),
            *("durability", "reflection", "shutdown_grace"),
        ),
    ),
    "capacity": (
        "Capacity",
        (
            *("max_open_spaces", "threads"),
            *("search_threads", "search_timeout", "max_message_bytes", "max_batch_bytes"),
            *("max_conversation_messages", "max_conversation_bytes", "max_answer_bytes"),
        ),
    ),
    "streaming": (
        "Live updates",
        ("update_retention", "max_updates", "max_subscribers", "heartbeat", "draft_timeout"),
    ),
    "meaning": (
        "Search by meaning",
        (
            *("embedder", "embedding_model", "embedding_models", "word_pieces"),
            *("embedding_threads", "embedding_idle"),
        ),
    ),
    "context": (
        "Working context and recall",
        (
            *("max_working_turns", "max_working_tokens", "context_hot_turns"),
            *("context_warm_turns", "profile_tokens", "recall", "excerpt_tokens"),
            "context_hot_tokens",
            *("context_warm_tokens", "context_cold_tokens", "context_tokens", "time_zone"),
        ),
    ),
    "notes": (
        "Notes and summaries",
        (
            *(
                "idle_timeout",
                "title_turns",
                "first_title_turn",
                "sweep_interval",
                "abbreviator",
                "abbreviation_model",
            ),
            *("abbreviation_url", "abbreviation_outcome"),
            *("abbreviation_threads", "abbreviation_timeout"),
            *("abbreviation_part_tokens", "abbreviation_daily_calls"),
            *("abbreviation_daily_tokens", "abbreviation_daily_cost", "abbreviation_input_price"),
            *("abbreviation_output_price", "redo_offline_notes"),
            *("compaction", "compaction_messages"),
            *("compaction_keep", "compaction_tokens", "compaction_model"),
        ),
    ),
    "retention": ("Retention", ("retention", "retention_grace")),
    "channels": (
        "Channels and third parties",
        ("models", "acknowledgement", "sender_rate", "sender_burst"),
    ),
    "limits": (
        "Limits of tokens and spaces",
        (
            *("token_calls", "token_burst", "token_bytes", "token_streams", "space_calls"),
            *("space_burst", "space_bytes", "space_streams", "space_conversations"),
            "space_stored_bytes",
        ),
    ),
    "logs": (
        "Logs and audit",
        ("log_level", "log_format", "slow_call", "audit_bytes", "audit_files"),
    ),
}
"""Groups in the order in which people are shown them: their labels and their settings."""
_OTHER = "other", "Other"

_OF_THE_MACHINE = (
    *("listen", "tls_cert", "tls_key", "client_ca", "insecure_plaintext", "auth"),
    *("metrics", "traces", "health_listen", "data_dir"),
    *("backup_dir", "backup_keep", "backup_url", "backup_key_file", "store", "space"),
    "embedding_model",
)
_OWN_DECISION = dict.fromkeys(
    _OF_THE_MACHINE, "it says where data lies or who reaches the server"
) | {
    # A caller who could set it would be sent every conversation, and the key of the API.
    "abbreviation_url": "it says where conversations and the API's key are sent",
}
"""Settings that no call changes, with the reason: a caller would gain more than a token gives."""

_WORDS = {"tls": "TLS", "ca": "CA", "url": "URL"}


def grouped() -> list[tuple[str, str, str]]:
    """Return every setting in the order of the groups: the group, its label and the setting."""
    rows = [
        (group, label, name)
        for group, (label, names) in GROUPS.items()
        for name in names
        if name in Settings.model_fields
    ]
    listed = {name for _, _, name in rows}
    return rows + [(*_OTHER, name) for name in Settings.model_fields if name not in listed]


def described(settings: Settings, file: Path) -> tuple[Setting, ...]:
    """Describe all settings. `file` is the one that a person would change."""
    return tuple(_described(settings, group, label, name, file) for group, label, name in grouped())


def masked(name: str, value: str) -> str:
    """Return a value without what may be a secret: a URL's password, or its query, where some APIs
    take their keys.
    """
    if name == "store":
        return without_password(value)
    if not name.endswith("_url") or "?" not in value:
        return value
    return urlunsplit(urlsplit(value)._replace(query=MASK))


def locked(settings: Settings, name: str, file: Path) -> str:
    """Return why no call changes a setting; empty if one may."""
    if reason := _OWN_DECISION.get(name):
        return f"{reason}: change it in {file} on the server's machine and start again"
    match settings.origin.source(name):
        case SettingSource.FLAG:
            flag = f"--{name.replace('_', '-')}"
            return f"it comes from the flag {flag}, which goes before the file: start without it"
        case SettingSource.ENVIRONMENT:
            variable = environment_name(name)
            return (
                f"it comes from {variable} in the environment, which goes before the file: unset it"
            )
    return ""


def _described(settings: Settings, group: str, group_label: str, name: str, file: Path) -> Setting:
    declared = Settings.model_fields[name]
    value = settings.store.url if name == "store" else text_of(getattr(settings, name))
    minimum, maximum, is_excluded = _range(declared)
    words = [_WORDS.get(word, word) for word in name.split("_")]
    return Setting(
        key=name,
        value=masked(name, value),
        default=text_of(declared.default),
        source=settings.origin.source(name).value,
        group=group,
        group_label=group_label,
        label=" ".join([words[0] if words[0].isupper() else words[0].capitalize(), *words[1:]]),
        help=declared.description or "",
        type=_type(declared),
        choices=tuple(map(str, get_args(declared.annotation)))
        if get_origin(declared.annotation) is Literal
        else (),
        minimum=minimum,
        maximum=maximum,
        minimum_excluded=is_excluded,
        masked=masked(name, value) != value,
        locked=locked(settings, name, file),
        environment_name=environment_name(name),
    )


def _type(declared: FieldInfo) -> ValueType:
    annotation = declared.annotation
    if get_origin(annotation) is Literal:
        return ValueType.CHOICE
    # of an optional path, the path
    kinds = {it for it in (get_args(annotation) or (annotation,)) if it is not NoneType}
    by_kind = {
        bool: ValueType.BOOLEAN,
        int: ValueType.INTEGER,
        float: ValueType.NUMBER,
        timedelta: ValueType.DURATION,
        Path: ValueType.PATH,
    }
    return next((by_kind[kind] for kind in kinds if kind in by_kind), ValueType.TEXT)


def _range(declared: FieldInfo) -> tuple[str, str, bool]:
    """Return the smallest and the largest value, and whether the smallest is too small itself."""
    least: Any = None
    most: Any = None
    is_excluded = False
    for rule in declared.metadata:
        match rule:
            case DurationBounds():
                least, most = rule.least, rule.most
            case annotated_types.Ge(ge=value):
                least = value
            case annotated_types.Gt(gt=value):
                least, is_excluded = value, True
            case annotated_types.Le(le=value):
                most = value
    return text_of(least), text_of(most), is_excluded
