"""Names of settings in the environment."""

import os
import re
from collections.abc import Collection
from pathlib import Path

PREFIX = "RECOLLECT_"
"""The beginning of each name."""
_OTHERS = {
    *("ADDRESS", "TOKEN", "CA", "CLIENT_CERT", "CLIENT_KEY", "PROFILE"),
    *("MCP_TOKEN", "WEB_LISTEN", "WEB_URL", "WEB_PEOPLE", "WEB_CORS", "WEB_MAX_IMPORT"),
    *("CONVERSATION_ID", "MODEL", "KILL_AT"),
    "BACKUP_KEY",
}
"""Names after the prefix that are no settings: clients read or set most, tests set KILL_AT, and the
keys of backups are never on a command line or in a list of settings.
"""
_SECRETS = (
    "ANTHROPIC_API_KEY",
    "OPENAI_API_KEY",
    "PGPASSWORD",
    "AWS_ACCESS_KEY_ID",
    "AWS_SECRET_ACCESS_KEY",
)
"""Variables that libraries read secrets from; none is a setting, which calls could list."""
_KUBERNETES = re.compile(
    r"(\w+_)?(SERVICE_HOST|SERVICE_PORT(_\w+)?|PORT_\d+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)",
    re.ASCII,
)
"""Names that Kubernetes gives to the containers of a pod for each service called `recollect` or
`recollect-…`.
"""
_KUBERNETES_PORT = re.compile(r"(\w+_)?PORT", re.ASCII)
_KUBERNETES_URL = re.compile(r"(tcp|udp|sctp)://")
"""The value of such a `…_PORT`: a number is a person's, who means it as a setting."""


def environment_name(setting: str) -> str:
    return f"{PREFIX}{setting.upper()}"


def nearest_name(name: str, settings: Collection[str]) -> str:
    """Return the setting that a misspelt name may mean; empty if none is near."""
    import difflib  # imported only for an error

    return next(iter(difflib.get_close_matches(name, settings, 1)), "")


def take_secrets() -> list[str]:
    """Put secrets that stand in files into their variables, and return what is wrong with them.

    A file is named by the variable with `_FILE` behind it, or is a credential of systemd with the
    variable's name (LoadCredential).
    """
    problems = []
    for name in _SECRETS:
        named, credentials = os.environ.get(f"{name}_FILE"), os.environ.get("CREDENTIALS_DIRECTORY")
        path = Path(named) if named else Path(credentials or os.devnull) / name
        if not named and not path.is_file():
            continue
        if name in os.environ:
            problems.append(f"{name}: is set, and {path} has one too: leave out one of them")
            continue
        try:
            os.environ[name] = path.read_text(encoding="utf-8").strip()
        except (OSError, ValueError) as error:
            problems.append(f"{name}: {path} cannot be read ({error}): let this user read it")
    return problems


def unknown_names(settings: Collection[str], former: Collection[str]) -> list[str]:
    """Return a sentence for each `RECOLLECT_*` name in the environment that is neither a setting,
    or was one, nor known to be another's.
    """
    lines = []
    for name, value in sorted(os.environ.items()):
        if not name.upper().startswith(PREFIX):
            continue
        rest = name[len(PREFIX) :]
        if rest.lower() in settings or rest.lower() in former:
            continue
        if rest.upper() in _OTHERS or _is_from_kubernetes(rest, value):
            continue
        near = nearest_name(rest.lower(), settings)
        advice = (
            f"do you mean {PREFIX}{near.upper()}?"
            if near
            else "unset it (recollect-server config names all settings)"
        )
        lines.append(f"{name}: there is no such setting: {advice}")
    return lines


def _is_from_kubernetes(rest: str, value: str) -> bool:
    if _KUBERNETES.fullmatch(rest):
        return True
    return _KUBERNETES_PORT.fullmatch(rest) is not None and _KUBERNETES_URL.match(value) is not None
