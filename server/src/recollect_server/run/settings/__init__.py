"""Settings, from one place: defaults < YAML file < `RECOLLECT_*` environment < flags. Only `run`
reads them. `values` has the types of their values, `environment` their names there.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from enum import StrEnum
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import (
    Field,
    PrivateAttr,
    ValidationError,
    ValidationInfo,
    field_validator,
    model_validator,
)
from pydantic_settings import (
    BaseSettings,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    YamlConfigSettingsSource,
)

from recollect_server.backup.names import KeepRule, parse_keep
from recollect_server.contract import endpoints
from recollect_server.kernel.domain.ids import SPACE_NAME, SPACE_RULE
from recollect_server.kernel.domain.setting import without_password
from recollect_server.kernel.domain.time import TimeZones, parse_zones
from recollect_server.retention.rule import RetentionRule, parse_rules
from recollect_server.run.settings.environment import (
    PREFIX,
    environment_name,
    nearest_name,
    unknown_names,
)
from recollect_server.run.settings.values import (
    FOLDER,
    BackupRules,
    BucketUrl,
    CollectorUrl,
    Duration,
    DurationBounds,
    File,
    Folder,
    HttpAddress,
    ListenAddresses,
    LogStoreName,
    ModelNames,
    ModelUrl,
    OneLine,
    ProtectedHttpAddress,
    RetentionRules,
    ZonesOfSpaces,
)

FORMER = frozenset(
    {
        *("write_threads", "recency_weight", "similarity_weight", "anchor_weight"),
        *("recency_decay", "context_conversation_share", "relevance_threshold", "recall_limit"),
        *("abbreviation_tries", "abbreviation_failures", "abbreviation_rest"),
        "max_suspended_spaces",
    }
)
"""Settings of the version before, which are constants now, or idle. A start warns of them for one
release, and the next one refuses them.
"""
_MOST_SHOWN = 60
"""Characters of a wrong value that are shown."""


class WrongSettings(Exception):
    """One or more settings are wrong; the text names each."""

    def __init__(self, text: str, problems: Mapping[str, str] | None = None) -> None:
        """`problems` says what is wrong with each setting, if it is about single ones."""
        super().__init__(text)
        self.problems = problems or {}


class SettingSource(StrEnum):
    """Source of a setting's value; a later one goes before an earlier one."""

    DEFAULT = "default"
    FILE = "file"
    ENVIRONMENT = "environment"
    FLAG = "flag"


@dataclass(frozen=True, slots=True)
class Origin:
    file: Path | None = None
    """The YAML file that was read."""
    in_file: frozenset[str] = frozenset()
    flags: Mapping[str, Any] = field(default_factory=dict)
    """Settings that flags name, with their values."""

    def source(self, name: str) -> SettingSource:
        if name in self.flags:
            return SettingSource.FLAG
        if any(variable.upper() == environment_name(name) for variable in os.environ):
            return SettingSource.ENVIRONMENT
        return SettingSource.FILE if name in self.in_file else SettingSource.DEFAULT


class Settings(BaseSettings):
    """Every setting with its default. The name is the YAML file's and the flag's; in the
    environment RECOLLECT_ goes before it.
    """

    model_config = SettingsConfigDict(extra="forbid", frozen=True)

    _origin: Origin = PrivateAttr(default_factory=Origin)

    # The files before the addresses: whether an address is allowed depends on them.
    tls_cert: File = Field(
        None,
        description="certificate of TCP addresses, in PEM, with those of its authorities after it;"
        " read again when it changes",
    )
    tls_key: File = Field(None, description="private key of tls_cert, in PEM")
    client_ca: File = Field(
        None, description="authorities, in PEM, of which every caller over TCP needs a certificate"
    )
    insecure_plaintext: bool = Field(
        False,
        description="listen beyond loopback without TLS, behind a proxy or mesh that ends it, and"
        " call a bucket there without TLS; tokens are needed all the same",
    )
    listen: ListenAddresses = Field(
        "127.0.0.1:50051",
        description="addresses, separated by commas: host:port, which beyond loopback needs TLS and"
        " a token, or unix:PATH, which only its owner may connect to",
    )
    metrics: ProtectedHttpAddress = Field(
        "",
        description="address of Prometheus metrics over HTTP, as 127.0.0.1:9464 (/metrics); beyond"
        " loopback it needs TLS and a token for every space; empty: none",
    )
    traces: CollectorUrl = Field(
        "",
        description="URL of a collector of OpenTelemetry that gets traces by OTLP over HTTP, as"
        " http://127.0.0.1:4318; empty: as OTEL_EXPORTER_OTLP_ENDPOINT says, else none",
    )
    health_listen: HttpAddress = Field(
        "",
        description="address of health alone, over plain HTTP and without a token wherever it is, as"
        " 0.0.0.0:8081 (/livez, /readyz); empty: none",
    )
    data_dir: Folder = Field(Path(".recollect"), description="folder that holds all data")
    backup_dir: File = Field(
        None,
        description="folder for backups without a folder of their own: scheduled ones, and those that"
        " administrators ask for by calls; none: none",
    )
    backup_keep: BackupRules = Field(
        "",
        description="backups in backup_dir that stay when a new one is made and verified, as"
        " `daily=7 weekly=5 monthly=12` (also last, hourly, yearly); empty: all stay",
    )
    backup_url: BucketUrl = Field(
        "",
        description="bucket of an S3-compatible store that a backup in backup_dir is copied to as well,"
        " as https://s3.example.org/bucket/prefix; empty: none",
    )
    backup_key_file: File = Field(
        None,
        description="file of keys, one a line: the first encrypts new backups, all decrypt; or the"
        " keys themselves in RECOLLECT_BACKUP_KEY; none: backups are plain files",
    )
    store: LogStoreName = Field(
        LogStoreName(FOLDER),
        description="where the logs live: folder (in data_dir), or the URL of a PostgreSQL database,"
        " postgresql://user@host/database, which any number of servers may share",
    )
    store_connections: int = Field(
        10,
        ge=1,
        description="connections to PostgreSQL that calls share at most; streams and starts have one"
        " of their own beside them",
    )
    store_prepared_statements: Literal["auto", "on", "off"] = Field(
        "auto",
        description="whether statements are prepared on connections to PostgreSQL; auto: on those"
        " that no pooler (as PgBouncer) shares",
    )
    space: str = Field(
        "default",
        pattern=SPACE_NAME,
        description="whose data: a folder in data_dir",
    )
    max_open_spaces: int = Field(
        1000,
        ge=1,
        description="spaces that are open at a time, most of them without open files; others are"
        " opened when called",
    )
    auth: Literal["auto", "required"] = Field(
        "auto",
        description="auto: calls need a token once there is one (recollect-server token create); required: always",
    )
    durability: Literal["fsync", "os"] = Field(
        "fsync",
        description="fsync: synced to disk before the answer; os: trust the operating system's cache",
    )
    max_working_turns: int = Field(
        20, ge=1, le=1000, description="default number of turns that Load returns"
    )
    max_working_tokens: int = Field(
        8000, ge=1, description="default number of tokens that Load returns"
    )
    max_message_bytes: int = Field(1 << 20, ge=1024, le=16 << 20, description="largest message")
    max_batch_bytes: int = Field(
        8 << 20, ge=1024, le=64 << 20, description="largest batch of messages"
    )
    max_conversation_messages: int = Field(
        0,
        ge=0,
        description="messages of a conversation, which takes no more; 0: no limit",
    )
    max_conversation_bytes: int = Field(
        0,
        ge=0,
        description="size of a conversation's transcript from which on it takes no more messages; 0: no limit",
    )
    max_answer_bytes: int = Field(
        4_000_000,
        ge=1024,
        le=1 << 30,
        description="largest answer, unless a single item is larger; gRPC's other clients accept 4 MiB",
    )
    threads: int = Field(
        32, ge=1, le=1000, description="concurrent calls, apart from writes and searches"
    )
    search_threads: int = Field(
        3, ge=1, le=100, description="concurrent searches and contexts: more would delay writes"
    )
    search_timeout: Annotated[Duration, DurationBounds(least=timedelta(milliseconds=1))] = Field(
        timedelta(seconds=30),
        description="time limit of a search, which then ends with DEADLINE_EXCEEDED, and of recall in a context; 1ms or longer",
    )
    update_retention: Duration = Field(
        timedelta(days=7), description="how long a subscriber may be away without missing updates"
    )
    max_updates: int = Field(
        1_000_000, ge=1, description="largest number of updates kept for absent subscribers"
    )
    max_subscribers: int = Field(
        5000, ge=1, le=100_000, description="concurrent streams of live updates, and health watches"
    )
    heartbeat: Annotated[Duration, DurationBounds(least=timedelta(milliseconds=50))] = Field(
        timedelta(seconds=15),
        description="interval after which a quiet stream sends its cursor; 50ms or longer",
    )
    draft_timeout: Duration = Field(
        timedelta(minutes=1), description="a live draft that does not grow for this long is dropped"
    )
    embedder: Literal["onnx", "off"] = Field(
        "onnx", description="onnx: find by meaning too; off: by words only"
    )
    embedding_model: str = Field(
        "shipped", min_length=1, description="shipped, or the folder of another embedding model"
    )
    embedding_models: Literal["auto", "minilm", "both"] = Field(
        "auto",
        description="auto: English and code by all-MiniLM-L6-v2, other languages by multilingual-e5-small, which is loaded"
        " (200 MiB) once a space has such text; minilm: all text by the first; both: English by both. With an embedding_model"
        " of your own, auto is that one alone",
    )
    word_pieces: bool = Field(
        True,
        description="keeps 32 bytes of each word piece of what is embedded, some 1.2 kB a message of a chat, so that"
        " searches compare the words of the best messages with those of the question",
    )
    embedding_threads: int = Field(
        2, ge=1, le=64, description="background threads that embed messages"
    )
    embedding_idle: Annotated[Duration, DurationBounds(least=timedelta(seconds=1))] = Field(
        timedelta(minutes=5),
        description="an embedding model leaves memory after this long without a text or a question"
        " to embed, and the next one waits half a second for it; 1s or longer",
    )
    idle_timeout: Duration = Field(
        timedelta(minutes=10),
        description="a conversation gets notes after it was quiet for this long",
    )
    title_turns: int = Field(
        10,
        ge=0,
        description="turns after a title behind which an idle conversation gets another one; 0: it"
        " keeps the first",
    )
    first_title_turn: int = Field(
        5,
        ge=1,
        le=5,
        description="turn from which a conversation gets its first title once it is idle; from the"
        " fifth on it gets one at once",
    )
    sweep_interval: Annotated[Duration, DurationBounds(least=timedelta(seconds=1))] = Field(
        timedelta(minutes=5), description="interval at which failed notes are retried; 1s or longer"
    )
    abbreviator: Literal["auto", "anthropic", "openai", "extractive", "off"] = Field(
        "auto",
        description="writer of notes: extractive (offline rules), anthropic, openai (any OpenAI-compatible server) or off;"
        " auto: anthropic if ANTHROPIC_API_KEY is set, else extractive",
    )
    abbreviation_model: str = Field(
        "auto",
        min_length=1,
        description="anthropic: haiku (auto), sonnet or opus for the newest of each, or a model id;"
        " openai: a model that the server has",
    )
    abbreviation_url: ModelUrl = Field(
        "http://127.0.0.1:11434/v1",
        description="openai: base URL of the API; the default is Ollama's",
    )
    abbreviation_outcome: bool = Field(
        False,
        description="whether a model ends abbreviations with `Outcome: …`, what came of the"
        " conversation; it writes some 30 tokens more for each",
    )
    abbreviation_threads: int = Field(
        1, ge=1, le=32, description="conversations that get notes at the same time"
    )
    abbreviation_timeout: Annotated[Duration, DurationBounds(least=timedelta(seconds=1))] = Field(
        timedelta(minutes=2),
        description="time limit of a model call; after half of it the next conversation starts in parallel",
    )
    abbreviation_part_tokens: int = Field(
        0,
        ge=0,
        description="tokens of a conversation that a model reads at once; 0: 30000 for anthropic, 2500 for openai"
        " (Ollama's default context is 4096)",
    )
    abbreviation_daily_calls: int = Field(
        2000, ge=0, description="limit of model calls per day (UTC)"
    )
    abbreviation_daily_tokens: int = Field(
        5_000_000, ge=0, description="limit of tokens read and written per day"
    )
    abbreviation_daily_cost: float = Field(
        0.0, ge=0, description="limit of cost per day in US dollars, by the two prices; 0: no limit"
    )
    abbreviation_input_price: float = Field(
        0.0, ge=0, description="US dollars for a million tokens that the model reads"
    )
    abbreviation_output_price: float = Field(
        0.0, ge=0, description="US dollars for a million tokens that the model writes"
    )
    redo_offline_notes: bool = Field(
        False,
        description="whether a model rewrites offline notes, oldest first, within half of the daily budget",
    )
    compaction: bool = Field(
        False, description="whether the server summarises conversations that grow long"
    )
    compaction_messages: int = Field(
        40, ge=2, le=100_000, description="messages after the last summary that start the next one"
    )
    compaction_keep: int = Field(
        20,
        ge=1,
        le=100_000,
        description="newest messages that stay out of a summary; fewer than compaction_messages",
    )
    compaction_tokens: int = Field(
        500, ge=100, le=10_000, description="tokens of a summary, at most"
    )
    compaction_model: str = Field(
        "auto",
        min_length=1,
        description="model that writes summaries, as abbreviation_model; auto: the same one. It has"
        " its own tries and pauses",
    )
    context_hot_turns: int = Field(
        5, ge=1, le=50, description="newest turns in a context, kept in memory"
    )
    context_warm_turns: int = Field(
        0,
        ge=0,
        le=1000,
        description="last turns before the hot ones considered for a context; 0: as many as its budget may hold",
    )
    context_hot_tokens: int = Field(
        1500,
        ge=1,
        le=1_000_000,
        description="tokens of a context's newest turns, unless a call says",
    )
    context_warm_tokens: int = Field(
        2000, ge=1, le=1_000_000, description="likewise, of the conversation's earlier turns"
    )
    context_cold_tokens: int = Field(
        900, ge=1, le=1_000_000, description="likewise, of what is recalled from everything older"
    )
    context_tokens: int = Field(
        0,
        ge=0,
        le=3_000_000,
        description="likewise, of the whole context; 0: the sum of the three",
    )
    time_zone: ZonesOfSpaces = Field(
        "UTC",
        description="IANA time zone of dates in questions, contexts and reports, unless a call says;"
        " with those of single spaces: `Europe/Berlin; tom=Asia/Tokyo`",
    )
    profile_tokens: int = Field(
        400,
        ge=0,
        le=100_000,
        description="tokens of a context for what users said of themselves and how they want to be"
        " answered, an eighth of the total at the most; 0: none",
    )
    recall: Literal["all", "likely", "none"] = Field(
        "all",
        description="what contexts recall whose callers do not say: all that the budget holds, the"
        " likeliest first; only what is likely to help; or nothing",
    )
    excerpt_tokens: int = Field(
        300,
        ge=20,
        le=100_000,
        description="tokens of a recalled message; longer messages become excerpts",
    )
    models: ModelNames = Field(
        "any",
        description="models that /model and SetModel accept, as `opus, sonnet, haiku`; any: all names",
    )
    acknowledgement: OneLine = Field(
        "Thank you, your message has arrived.",
        max_length=1000,
        description="the one reply to an untrusted third party before the owner answers; empty: none",
    )
    sender_rate: int = Field(
        60, ge=0, description="messages per minute from a sender who is not an owner; 0: no limit"
    )
    sender_burst: int = Field(20, ge=1, description="messages that such a sender may send at once")
    retention: RetentionRules = Field(
        "",
        description="rules that delete or unindex idle conversations, as `unindex idle=30d; delete"
        " space=alex conversations=10000 anchors=delete; delete communications idle=180d`; empty: nothing"
        " is ever touched",
    )
    retention_grace: Duration = Field(
        timedelta(minutes=10),
        description="how long these rules wait after a start, and a hundred times as long where they"
        " are new or the clock was put on; 0s: not at all",
    )
    token_calls: float = Field(
        0, ge=0, description="calls a second of one token, unless the token says so; 0: no limit"
    )
    token_burst: float = Field(
        0, ge=0, description="calls of one token at once; 0: as many as in a second"
    )
    token_bytes: int = Field(
        0, ge=0, description="bytes of requests of one token in a day (UTC); 0: no limit"
    )
    token_streams: int = Field(0, ge=0, description="open streams of one token; 0: no limit")
    space_calls: float = Field(
        0, ge=0, description="calls a second about one space, by all callers; 0: no limit"
    )
    space_burst: float = Field(
        0, ge=0, description="calls about one space at once; 0: as many as in a second"
    )
    space_bytes: int = Field(
        0, ge=0, description="bytes of requests about one space in a day (UTC); 0: no limit"
    )
    space_streams: int = Field(0, ge=0, description="open streams of one space; 0: no limit")
    space_conversations: int = Field(0, ge=0, description="conversations of a space; 0: no limit")
    space_stored_bytes: int = Field(0, ge=0, description="bytes of a space's logs; 0: no limit")
    audit_bytes: int = Field(
        16 << 20, ge=4096, description="largest file of the audit log, before the next one begins"
    )
    audit_files: int = Field(
        4, ge=0, le=1000, description="older files of the audit log that are kept"
    )
    reflection: bool = Field(
        True, description="whether the server describes its services to tools such as grpcurl"
    )
    shutdown_grace: Annotated[Duration, DurationBounds(most=timedelta(days=1))] = Field(
        timedelta(seconds=10),
        description="how long running calls may take at a stop; 1d at the most",
    )
    log_level: Literal["debug", "info", "warning", "error"] = Field(
        "info", description="lowest level that is logged; debug has a line for every call"
    )
    slow_call: Duration = Field(
        timedelta(seconds=1),
        description="calls slower than this are logged at info, as are failed and administrative ones",
    )
    log_format: Literal["text", "json"] = Field("text", description="format of log lines")

    @model_validator(mode="before")
    @classmethod
    def _without_former(cls, values: dict[str, Any]) -> dict[str, Any]:
        return {name: value for name, value in values.items() if name not in FORMER}

    @field_validator("compaction_keep")
    @classmethod
    def _keeps_fewer(cls, value: int, info: ValidationInfo) -> int:
        if (messages := info.data.get("compaction_messages")) is not None and value >= messages:
            raise ValueError(f"must be less than compaction_messages, which is {messages}")
        return value

    @field_validator("tls_key", "client_ca")
    @classmethod
    def _belongs_to_a_certificate(cls, value: Path | None, info: ValidationInfo) -> Path | None:
        if info.data.get("tls_cert") is None and value is not None and "tls_cert" in info.data:
            raise ValueError("needs tls_cert beside it, the certificate that the server shows")
        if info.field_name == "tls_key" and value is None and info.data.get("tls_cert"):
            raise ValueError("is needed beside tls_cert: name the certificate's private key")
        return value

    @property
    def origin(self) -> Origin:
        return self._origin

    def take_origin(self, origin: Origin) -> None:
        """Take other sources: of a copy of which single values changed."""
        self._origin = origin

    @property
    def addresses(self) -> tuple[str, ...]:
        return endpoints.split(self.listen)

    @property
    def model_names(self) -> tuple[str, ...]:
        """The models that may be chosen; none: any."""
        return () if self.models == "any" else tuple(self.models.split(", "))

    @property
    def retention_rules(self) -> tuple[RetentionRule, ...]:
        """The rules of retention, in their order."""
        return parse_rules(self.retention)

    @property
    def time_zones(self) -> TimeZones:
        """The time zones of spaces."""
        return parse_zones(self.time_zone)

    @property
    def backup_rules(self) -> tuple[KeepRule, ...]:
        """The rules that say which backups stay; none: all do."""
        return parse_keep(self.backup_keep)

    @classmethod
    def load(cls, config: Path | None, flags: dict[str, Any]) -> "Settings":
        """Return the settings in force. Raises WrongSettings, which names each wrong one.

        Without a file that is named, that of the data folder counts, if there is one.
        """
        config = config or _own_file(flags)
        if config is not None and not config.is_file():
            raise WrongSettings(f"{config}: there is no such file: name another with --config")
        unknown = unknown_names(Settings.model_fields, FORMER)
        try:
            settings = _with_file(config)(**flags)
        except ValidationError as error:
            problems = {
                ".".join(str(part) for part in e["loc"]) or "settings": _said(e)
                for e in error.errors()
            }
            lines = [f"{name}: {problem}" for name, problem in problems.items()]
            raise WrongSettings("\n".join(lines + unknown), problems) from error
        except RecursionError:
            raise WrongSettings(f"{config}: is nested too deeply: {_EXPECTED}") from None
        except OSError as error:
            raise WrongSettings(
                f"{config}: cannot be read ({error.strerror}): let this user read it"
            ) from error
        except UnicodeDecodeError:
            raise WrongSettings(f"{config}: is not UTF-8: save it as UTF-8") from None
        except (ValueError, TypeError) as error:  # a list, or words
            raise WrongSettings(f"{config}: holds no settings: {_EXPECTED}") from error
        except Exception as error:
            import yaml  # 1 MiB, which a server without a file need not hold

            if not isinstance(error, yaml.YAMLError):
                raise
            raise WrongSettings(f"{config}: is no YAML{_place(error)}: {_EXPECTED}") from error
        if unknown:
            raise WrongSettings("\n".join(unknown))
        settings.take_origin(Origin(config, _names_in(config), dict(flags)))
        return settings


_EXPECTED = "write a name and its value in each line, as `threads: 32` (recollect-server config prints such a file)"


SYSTEM_FILE = Path("/etc/recollect/recollect.yaml")
"""The file that the unit of systemd names."""


def own_file(data_dir: Path) -> Path:
    """Return the file of settings that a server makes if it was started without one."""
    return data_dir / "recollect.yaml"


def unread(settings: Settings) -> list[str]:
    """Return a sentence for each file of settings that somebody may have meant and that is not
    read, for what the file names that is set elsewhere, and for what is no setting any more.
    """
    origin = settings.origin
    lines = []
    for file in (own_file(settings.data_dir), Path("recollect.yaml"), SYSTEM_FILE):
        if file.is_file() and not (origin.file and file.samefile(origin.file)):
            instead = f"{origin.file} is" if origin.file else "name it with --config"
            lines.append(f"{file} is not read: {instead}")
    hidden = sorted(
        it for it in origin.in_file - FORMER if origin.source(it) is not SettingSource.FILE
    )
    if hidden:
        lines.append(f"a flag or the environment goes before {origin.file} for {', '.join(hidden)}")
    sources = {name: origin.source(name) for name in sorted(FORMER)}
    lines += [
        f"{name} ({source}) is no setting any more, ignored: take it out"
        for name, source in sources.items()
        if source is not SettingSource.DEFAULT
    ]
    return lines


def _own_file(flags: Mapping[str, Any]) -> Path | None:
    """Return the file of settings in the data folder, if there is one. The folder is named before
    any file is read: by a flag or in the environment.
    """
    variables = {name.upper(): value for name, value in os.environ.items()}
    named = flags.get("data_dir") or variables.get(environment_name("data_dir"))
    file = own_file(Path(named or Settings.model_fields["data_dir"].default))
    return file if file.is_file() else None


def _names_in(config: Path | None) -> frozenset[str]:
    """Return the settings that a file names, which was just read."""
    if config is None:
        return frozenset()
    import yaml  # see `Settings.load`

    return frozenset(map(str, yaml.safe_load(config.read_text()) or ()))


def _place(error: Exception) -> str:
    mark = getattr(error, "problem_mark", None)
    return f" in line {mark.line + 1}" if mark else ""


def _said(error: Any) -> str:
    match error["type"]:
        case "extra_forbidden":
            near = nearest_name(str(error["loc"][-1]), Settings.model_fields)
            return f"there is no such setting: {f'do you mean {near}?' if near else 'recollect-server config names all'}"
        case "string_pattern_mismatch":
            reason = f"must be {SPACE_RULE}"
        case "int_parsing" | "int_type" | "int_from_float":
            reason = "must be a whole number"
        case "float_parsing" | "float_type":
            reason = "must be a number"
        case "bool_parsing" | "bool_type":
            reason = "must be true or false"
        case _:
            reason = str(error["msg"]).removeprefix("Value error, ")
            reason = reason.replace("Input should be", "must be", 1)
    # A URL in any setting may hold a password, though it stands in the wrong place.
    value = without_password(repr(error["input"]))
    return f"{reason} (it is {value if len(value) <= _MOST_SHOWN else f'{value[:_MOST_SHOWN]}…'})"


@cache
def _with_file(config: Path | None) -> type[Settings]:
    """Return the settings' class with this YAML file as a source, read whenever an instance is
    made.
    """

    class WithFile(Settings):
        model_config = SettingsConfigDict(
            env_prefix=PREFIX, yaml_file=config, extra="forbid", frozen=True
        )

        @classmethod
        def settings_customise_sources(
            cls,
            settings_cls: type[BaseSettings],
            init_settings: PydanticBaseSettingsSource,
            env_settings: PydanticBaseSettingsSource,
            dotenv_settings: PydanticBaseSettingsSource,  # noqa: ARG003 - pydantic's signature
            file_secret_settings: PydanticBaseSettingsSource,  # noqa: ARG003
        ) -> tuple[PydanticBaseSettingsSource, ...]:
            return init_settings, env_settings, YamlConfigSettingsSource(settings_cls)

    return WithFile
