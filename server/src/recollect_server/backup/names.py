"""Names of backups, and the rules that say which of them are kept."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime

_NAME = re.compile(r"(recollect|partial)-(\d{8}t\d{6}z)", re.ASCII)
_RULE = re.compile(r"([a-z]+)=(\d{1,4})", re.ASCII)
_TIME = "%Y%m%dt%H%M%Sz"
_PERIODS = {
    "last": "%Y%m%dt%H%M%S",
    "hourly": "%Y-%m-%d %H",
    "daily": "%Y-%m-%d",
    "weekly": "%G-%V",
    "monthly": "%Y-%m",
    "yearly": "%Y",
}
"""For each rule the form of its period: backups whose times look the same in it are of one
period. `last` has a period for each backup.
"""


def backup_name(now: int, *, is_whole: bool) -> str:
    """Return the name of a backup that is made now. One of some spaces only gets another prefix:
    no rule ever removes it, nor counts it in place of a whole one.
    """
    time = datetime.fromtimestamp(now / 1000, UTC).strftime(_TIME)
    return f"{'recollect' if is_whole else 'partial'}-{time}"


def backup_time(name: str, *, is_whole: bool = True) -> datetime | None:
    """Return the time in the name of a backup of all spaces; None if it has no such name. The name
    of one of some spaces has a time too, unless `is_whole`.
    """
    match = _NAME.fullmatch(name)
    if match is None or (is_whole and match[1] != "recollect"):
        return None
    try:
        return datetime.strptime(match[2], _TIME).replace(tzinfo=UTC)
    except ValueError:
        return None


@dataclass(frozen=True, slots=True)
class KeepRule:
    """Rule that keeps the newest backup of each of the last `count` periods that have one."""

    name: str
    count: int

    @property
    def text(self) -> str:
        return f"{self.name}={self.count}"


def parse_keep(text: str) -> tuple[KeepRule, ...]:
    """Return the rules of a text as `daily=7 weekly=5 monthly=12`. Raises ValueError."""
    rules: dict[str, KeepRule] = {}
    for part in text.replace(",", " ").split():
        match = _RULE.fullmatch(part)
        if match is None or match[1] not in _PERIODS:
            raise ValueError(
                f"{part!r} is not one of {', '.join(f'{it}=N' for it in _PERIODS)}, as in"
                " `daily=7 weekly=5 monthly=12`"
            )
        if match[1] in rules:
            raise ValueError(f"names {match[1]} twice")
        rules[match[1]] = KeepRule(match[1], int(match[2]))
    if rules and not any(rule.count for rule in rules.values()):
        raise ValueError("would keep no backup: give one rule a number above 0")
    return tuple(rules.values())


def kept(times: Iterable[datetime], rules: Iterable[KeepRule]) -> set[datetime]:
    newest_first = sorted(times, reverse=True)
    chosen: set[datetime] = set()
    for rule in rules:
        periods: set[str] = set()
        for time in newest_first:
            period = time.strftime(_PERIODS[rule.name])
            if period not in periods and len(periods) < rule.count:
                periods.add(period)
                chosen.add(time)
    return chosen
