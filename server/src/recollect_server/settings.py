"""Settings, from one place: defaults < YAML file < `RECOLLECT_*` environment < flags. Only `cli` and `app` read them."""

import difflib
import os
import re
from datetime import timedelta
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

import yaml
from pydantic import AfterValidator, BeforeValidator, Field, ValidationError, ValidationInfo, field_validator
from pydantic_settings import (
    BaseSettings,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    YamlConfigSettingsSource,
)

_PREFIX = "RECOLLECT_"  # of each setting in the environment
_OTHERS = {"ADDRESS", "CONVERSATION_ID", "MODEL", "KILL_AT"}
"""Names after the prefix that are no settings: the client's commands read or set the first three, tests the last."""
_KUBERNETES = re.compile(r"(\w+_)?(SERVICE_HOST|SERVICE_PORT(_\w+)?|PORT_\d+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)", re.ASCII)
"""Names that Kubernetes gives to the containers of a pod for each service called `recollect` or `recollect-…`."""
_KUBERNETES_PORT = re.compile(r"(\w+_)?PORT", re.ASCII)
_KUBERNETES_URL = re.compile(r"(tcp|udp|sctp)://")
"""The value of such a `…_PORT`: a number is a person's, who means it as a setting."""
_DURATION = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d)")
_UNITS = {"ms": 0.001, "s": 1, "m": 60, "h": 3600, "d": 86400}
_MODEL = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:/@+-]{0,127}")
_LOOPBACK = re.compile(r"(127\.\d{1,3}\.\d{1,3}\.\d{1,3}|localhost|\[::1\]):(\d{1,5})")


class WrongSettings(Exception):
    """One or more settings are wrong; the text names each."""


def duration_text(duration: timedelta) -> str:
    """Return a duration in the largest unit that divides it: `500ms`, `2s`, `10m`, `7d`."""
    milliseconds = duration // timedelta(milliseconds=1)
    units = {unit: round(1000 * seconds) for unit, seconds in _UNITS.items()}
    unit = next((unit for unit in reversed(units) if milliseconds and milliseconds % units[unit] == 0), "ms")
    return f"{milliseconds // units[unit]}{unit}"


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
    if value.startswith("unix:") and len(value) > 5:
        return value
    match = _LOOPBACK.fullmatch(value)
    if match is None:
        raise ValueError(
            "must be unix:PATH or a loopback address as 127.0.0.1:50051: other addresses need TLS and a token, which this"
            " version does not have"
        )
    if int(match[2]) > 65535:
        raise ValueError(f"has port {match[2]}; ports end at 65535")
    return value


def _not_empty(value: object) -> object:
    """Refuse an empty path, which `Path` takes for the current folder."""
    if value == "":
        raise ValueError("must not be empty: write . for the current folder")
    return value


def _at_least(least: timedelta) -> AfterValidator:
    """Refuse a duration that is shorter: it would keep a thread at work all the time, or let no call end well."""

    def check(value: timedelta) -> timedelta:
        if value < least:
            raise ValueError(f"must be {duration_text(least)} or longer")
        return value

    return AfterValidator(check)


def _at_most(most: timedelta) -> AfterValidator:
    """Refuse a duration that is longer: no thread can wait for that long."""

    def check(value: timedelta) -> timedelta:
        if value > most:
            raise ValueError(f"must be {duration_text(most)} or shorter")
        return value

    return AfterValidator(check)


def _names(value: object) -> object:
    return ", ".join(map(str, value)) if isinstance(value, (list, tuple)) else value


def _models(value: str) -> str:
    names = [name.strip() for name in value.split(",") if name.strip()]
    if wrong := [name for name in names if not _MODEL.fullmatch(name)]:
        raise ValueError(f"names no model: {wrong[0]!r} is not one word of at most 128 letters, digits and . _ : / @ + -")
    return ", ".join(dict.fromkeys(names)) or "any"


def _url(value: str) -> str:
    parts = urlsplit(value)
    if parts.scheme not in ("http", "https") or not parts.hostname or not value.isprintable() or " " in value:
        raise ValueError("must be a URL as http://127.0.0.1:11434/v1")
    if parts.username or parts.password:
        raise ValueError("must hold no user or password: a key is read from OPENAI_API_KEY")
    return value


def _one_line(value: str) -> str:
    if value != value.strip() or not value.isprintable():
        raise ValueError("must be one line without space around it")
    return value


Duration = Annotated[timedelta, BeforeValidator(_duration)]


class Settings(BaseSettings):
    """Every setting with its default. The name is the YAML file's and the flag's; in the environment RECOLLECT_ goes before it."""

    model_config = SettingsConfigDict(extra="forbid", frozen=True)

    listen: Annotated[str, AfterValidator(_listen)] = Field(
        "127.0.0.1:50051", description="where to listen: host:port or unix:PATH"
    )
    data_dir: Annotated[Path, BeforeValidator(_not_empty)] = Field(
        Path(".recollect"), description="the folder that everything is kept in"
    )
    space: str = Field("default", pattern=r"^[a-z0-9][a-z0-9_-]{0,63}$", description="whose data: a folder in data_dir")
    durability: Literal["fsync", "os"] = Field(
        "fsync", description="fsync: on the disk before the answer; os: trust the system's cache"
    )
    max_working_turns: int = Field(20, ge=1, le=1000, description="turns that Load returns")
    max_working_tokens: int = Field(8000, ge=1, description="tokens that Load returns")
    max_message_bytes: int = Field(1 << 20, ge=1024, le=16 << 20, description="the largest message")
    max_batch_bytes: int = Field(8 << 20, ge=1024, le=64 << 20, description="the largest batch of messages")
    max_answer_bytes: int = Field(8 << 20, ge=1024, le=1 << 30, description="the largest answer, unless one item alone is larger")
    threads: int = Field(32, ge=1, le=1000, description="calls that are worked on at the same time, but for writes and searches")
    write_threads: int = Field(
        3, ge=1, le=100, description="writes that are worked on at the same time: more would wait for each other"
    )
    search_threads: int = Field(
        3, ge=1, le=100, description="searches and built contexts that are worked on at the same time: more would hold up writes"
    )
    search_timeout: Annotated[Duration, _at_least(timedelta(milliseconds=1))] = Field(
        timedelta(seconds=30),
        description="how long a search or a built context may take before it ends with DEADLINE_EXCEEDED; 1ms or longer",
    )
    update_retention: Duration = Field(timedelta(days=7), description="how long a subscriber may be away and miss nothing")
    max_updates: int = Field(1_000_000, ge=1, description="how many updates are kept for it at the most")
    max_subscribers: int = Field(
        5000, ge=1, le=100_000, description="streams of live updates at the same time, and watches of health"
    )
    heartbeat: Annotated[Duration, _at_least(timedelta(milliseconds=50))] = Field(
        timedelta(seconds=15), description="a subscriber that hears nothing for so long is sent its cursor; 50ms or longer"
    )
    draft_timeout: Duration = Field(timedelta(minutes=1), description="a live draft that does not grow for so long is dropped")
    embedder: Literal["onnx", "off"] = Field("onnx", description="onnx: find by meaning too; off: by words alone")
    embedding_model: str = Field("shipped", min_length=1, description="shipped, or the folder of another embedding model")
    embedding_threads: int = Field(2, ge=1, le=64, description="threads that embed behind everything else")
    idle_timeout: Duration = Field(
        timedelta(minutes=10), description="notes are taken of a conversation that was quiet for so long"
    )
    sweep_interval: Annotated[Duration, _at_least(timedelta(seconds=1))] = Field(
        timedelta(minutes=5), description="notes that failed are tried again so often; 1s or longer"
    )
    abbreviator: Literal["auto", "anthropic", "openai", "extractive", "off"] = Field(
        "auto", description="who takes notes; auto: anthropic where ANTHROPIC_API_KEY is set, else extractive"
    )
    abbreviation_model: str = Field(
        "auto", min_length=1, description="anthropic's model: haiku (auto), sonnet, opus, or an id; openai: the server's model"
    )
    abbreviation_url: Annotated[str, AfterValidator(_url)] = Field(
        "http://127.0.0.1:11434/v1", description="openai: the base URL of the OpenAI-compatible API; the default is Ollama's"
    )
    abbreviation_threads: int = Field(1, ge=1, le=32, description="conversations that notes are taken of at the same time")
    abbreviation_timeout: Annotated[Duration, _at_least(timedelta(seconds=1))] = Field(
        timedelta(minutes=2), description="how long a call of the model may take; after half of it the next one begins beside it"
    )
    abbreviation_part_tokens: int = Field(
        0, ge=0, description="tokens of a conversation that a model reads at once; 0: 30000 for anthropic, 2500 for openai"
    )
    abbreviation_daily_calls: int = Field(2000, ge=0, description="calls of the model in a day (UTC) at the most")
    abbreviation_daily_tokens: int = Field(5_000_000, ge=0, description="tokens that they may cost, read and written")
    abbreviation_daily_cost: float = Field(0.0, ge=0, description="US dollars that they may cost; 0: any amount")
    abbreviation_input_price: float = Field(0.0, ge=0, description="US dollars for a million tokens that the model reads")
    abbreviation_output_price: float = Field(0.0, ge=0, description="US dollars for a million tokens that it writes")
    abbreviation_tries: int = Field(4, ge=1, le=20, description="how often a call that the model's server refuses is made")
    abbreviation_failures: int = Field(3, ge=1, description="after so many failed calls in a row the model is left alone")
    abbreviation_rest: Duration = Field(timedelta(minutes=2), description="how long it is left alone then")
    redo_offline_notes: bool = Field(
        False, description="whether a model writes offline notes anew, within half of the day's budget, the oldest first"
    )
    compaction: bool = Field(False, description="whether conversations that grow long are condensed for their agent")
    compaction_messages: int = Field(
        40, ge=2, le=100_000, description="messages behind the last summary that a conversation may have before it is condensed"
    )
    compaction_keep: int = Field(20, ge=1, le=100_000, description="newest messages that are not condensed then; fewer than those")
    context_hot_turns: int = Field(5, ge=1, le=50, description="newest turns that a context has, kept in memory")
    context_warm_turns: int = Field(50, ge=0, le=1000, description="earlier turns that a context looks at; of more some are chosen")
    recency_weight: float = Field(0.5, ge=0, le=1, description="what being recent counts for in a context")
    similarity_weight: float = Field(0.3, ge=0, le=1, description="what being near to the message counts for")
    anchor_weight: float = Field(0.2, ge=0, le=1, description="what counts for a message that an anchor came from")
    recency_decay: float = Field(0.1, ge=0, le=100, description="what was said counts e to minus so much a day")
    context_conversation_share: float = Field(
        0.5, gt=0, le=1, description="what one other conversation may have of what is recalled before all had a turn"
    )
    relevance_threshold: float = Field(
        0.3,
        ge=0,
        le=1,
        description="how probably what is stored must answer a message, for anything to be recalled",
    )
    recall_limit: int = Field(8, ge=1, le=50, description="conversations, or places in them, that a context recalls at the most")
    excerpt_tokens: int = Field(300, ge=20, le=100_000, description="tokens of a recalled message; longer ones are excerpted")
    warm_for: Duration = Field(timedelta(minutes=30), description="a conversation that was recalled counts as recent for so long")
    models: Annotated[str, BeforeValidator(_names), AfterValidator(_models)] = Field(
        "any", description="models that /model and SetModel may choose, as `opus, sonnet, haiku`"
    )
    acknowledgement: Annotated[str, AfterValidator(_one_line)] = Field(
        "Thank you, your message has arrived.",
        max_length=1000,
        description="the one reply that an untrusted third party may have before the owner answers; empty: none",
    )
    sender_rate: int = Field(60, ge=0, description="messages a minute that a sender who is no owner may send; 0: any number")
    sender_burst: int = Field(20, ge=1, description="how many of them at once")
    reflection: bool = Field(True, description="whether grpcurl may ask what there is")
    shutdown_grace: Annotated[Duration, _at_most(timedelta(days=1))] = Field(
        timedelta(seconds=10), description="how long calls under way may take at a stop; 1d at the most"
    )
    log_level: Literal["debug", "info", "warning", "error"] = Field(
        "info", description="the least severe events that are logged; `debug` has a line for every call"
    )
    slow_call: Duration = Field(
        timedelta(seconds=1), description="calls that take longer are logged at `info`, as are failed and administrative ones"
    )
    log_format: Literal["text", "json"] = Field("text", description="how it is logged")

    @field_validator("compaction_keep")
    @classmethod
    def _keeps_fewer(cls, value: int, info: ValidationInfo) -> int:
        if (messages := info.data.get("compaction_messages")) is not None and value >= messages:
            raise ValueError(f"must be less than compaction_messages, which is {messages}")
        return value

    @property
    def model_names(self) -> tuple[str, ...]:
        """The models that may be chosen; none: any."""
        return () if self.models == "any" else tuple(self.models.split(", "))

    @classmethod
    def load(cls, config: Path | None, flags: dict[str, Any]) -> "Settings":
        """Return the settings in force. Raises WrongSettings, which names each wrong one."""
        if config is not None and not config.is_file():
            raise WrongSettings(f"{config}: there is no such file: name another with --config")
        unknown = _unknown_names()
        try:
            settings = _with_file(config)(**flags)
        except ValidationError as error:
            lines = [f"{'.'.join(str(part) for part in e['loc']) or 'settings'}: {_said(e)}" for e in error.errors()]
            raise WrongSettings("\n".join(lines + unknown)) from error
        except yaml.YAMLError as error:
            raise WrongSettings(f"{config}: is no YAML{_place(error)}: {_EXPECTED}") from error
        except RecursionError:
            raise WrongSettings(f"{config}: is nested too deeply: {_EXPECTED}") from None
        except OSError as error:
            raise WrongSettings(f"{config}: cannot be read ({error.strerror}): let this user read it") from error
        except (ValueError, TypeError) as error:  # a list, or words
            raise WrongSettings(f"{config}: holds no settings: {_EXPECTED}") from error
        if unknown:
            raise WrongSettings("\n".join(unknown))
        return settings


_EXPECTED = "write a name and its value in each line, as `threads: 32` (recollect-server config prints such a file)"


def _place(error: yaml.YAMLError) -> str:
    mark = getattr(error, "problem_mark", None)
    return f" in line {mark.line + 1}" if mark else ""


def _unknown_names() -> list[str]:
    """Return a sentence for each `RECOLLECT_*` name in the environment that is neither a setting nor known to be another's."""
    lines = []
    for name, value in sorted(os.environ.items()):
        if not name.upper().startswith(_PREFIX):
            continue
        rest = name[len(_PREFIX) :]
        if rest.lower() in Settings.model_fields or rest.upper() in _OTHERS or _is_from_kubernetes(rest, value):
            continue
        near = difflib.get_close_matches(rest.lower(), Settings.model_fields, 1)
        advice = f"do you mean {_PREFIX}{near[0].upper()}?" if near else "unset it (recollect-server config names all settings)"
        lines.append(f"{name}: there is no such setting: {advice}")
    return lines


def _is_from_kubernetes(rest: str, value: str) -> bool:
    if _KUBERNETES.fullmatch(rest):
        return True
    return _KUBERNETES_PORT.fullmatch(rest) is not None and _KUBERNETES_URL.match(value) is not None


def _said(error: Any) -> str:
    match error["type"]:
        case "extra_forbidden":
            near = difflib.get_close_matches(str(error["loc"][-1]), Settings.model_fields, 1)
            return f"there is no such setting: {f'do you mean {near[0]}?' if near else 'recollect-server config names all'}"
        case "string_pattern_mismatch":
            said = "must be 1 to 64 lower case letters, digits, _ and -, beginning with a letter or digit"
        case _:
            said = str(error["msg"]).removeprefix("Value error, ")
    return f"{said} (it is {error['input']!r})"


@cache
def _with_file(config: Path | None) -> type[Settings]:
    """Return the settings' class with this YAML file as a source, read whenever an instance is
    made.
    """

    class WithFile(Settings):
        model_config = SettingsConfigDict(env_prefix=_PREFIX, yaml_file=config, extra="forbid", frozen=True)

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
