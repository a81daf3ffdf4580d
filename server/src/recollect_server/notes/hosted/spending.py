"""Daily spending on a model, which `<data-dir>/spending.json` keeps, and its limits."""

import threading
from dataclasses import dataclass, replace
from pathlib import Path

import orjson

from recollect_server.kernel.domain.conversation import ModelUse
from recollect_server.kernel.domain.errors import StorageUnavailable
from recollect_server.kernel.domain.live import Live
from recollect_server.kernel.domain.telemetry import UNMEASURED, Count, Telemetry
from recollect_server.kernel.domain.time import Clock, to_text
from recollect_server.kernel.log.files import read_file, write_private
from recollect_server.notes.hosted.language_model import ModelUnavailable

NAME = "spending.json"


@dataclass(frozen=True, slots=True)
class DailySpending:
    """Calls, tokens read and written, and what they cost in US dollars, on one day."""

    day: str = ""
    """As `2026-02-03`; empty: no model was ever called."""
    calls: int = 0
    tokens: int = 0
    cost: float = 0.0


@dataclass(frozen=True, slots=True)
class SpendingLimits:
    """Daily limits (UTC), and the price of tokens in US dollars per million; 0: free."""

    calls: int
    tokens: int
    cost: float = 0.0
    """US dollars; 0: any amount."""
    input_price: float = 0.0
    output_price: float = 0.0


class SpendingFile:
    """Spending on the last day that a model was called on."""

    def __init__(self, data_dir: Path) -> None:
        self._path = data_dir / NAME

    def last(self) -> DailySpending:
        """Return the last day's spending; that of an empty day if there is none."""
        try:
            record = orjson.loads(read_file(self._path))
            return DailySpending(
                str(record["day"]),
                int(record["calls"]),
                int(record["tokens"]),
                float(record["cost"]),
            )
        except (OSError, ValueError, KeyError, TypeError):
            return DailySpending()

    def write(self, spent: DailySpending) -> None:
        """Keep the spending of a day. Raises StorageUnavailable."""
        try:
            write_private(self._path, orjson.dumps(spent), sync=False)
        except OSError as error:
            raise StorageUnavailable(
                f"the spending on the model cannot be kept: {error.strerror}"
            ) from error


class Spending:
    """Counts the calls of each day (UTC). Safe to call from any thread. A restart goes on with
    what the file has of the day.
    """

    def __init__(
        self,
        clock: Clock,
        budget: Live[SpendingLimits],
        file: SpendingFile,
        telemetry: Telemetry = UNMEASURED,
    ) -> None:
        self._telemetry = telemetry
        self._clock = clock
        self._budget = budget
        self._file = file
        self._lock = threading.Lock()  # guards `_spent`, and orders what is written
        self._spent = DailySpending()
        self._own = threading.local()  # calls of each thread since it asked for them

    def allow(self) -> None:
        """Count a call that is about to be made. Raise ModelUnavailable if the day's budget is
        spent.
        """
        with self._lock:
            spent = self._today()
            if self._share(spent) >= 1:
                cost = f", {spent.cost:.2f} US dollars" if self._budget.now.cost else ""
                raise ModelUnavailable(
                    f"the budget of {spent.day} is spent: {spent.calls} calls, {spent.tokens} tokens{cost}"
                )
            self._set(replace(spent, calls=spent.calls + 1))
        self._count(ModelUse(1))

    def add(self, read: object, written: object) -> None:
        """Count the tokens of a call that was answered. What is no number counts as none."""
        tokens = [count if isinstance(count, int) else 0 for count in (read, written)]
        with self._lock:
            spent = self._today()
            cost = (
                tokens[0] * self._budget.now.input_price + tokens[1] * self._budget.now.output_price
            ) / 1_000_000
            self._set(replace(spent, tokens=spent.tokens + sum(tokens), cost=spent.cost + cost))
        self._count(ModelUse(0, max(tokens[0], 0), max(tokens[1], 0), max(cost, 0.0)))

    def take_use(self) -> ModelUse:
        """Return what this thread's calls used since it asked last."""
        use: ModelUse = getattr(self._own, "use", ModelUse())
        self._own.use = ModelUse()
        return use

    def _count(self, more: ModelUse) -> None:
        self._telemetry.count(Count.MODEL_CALLS, more.calls)
        self._telemetry.count(Count.MODEL_TOKENS, more.input, "read")
        self._telemetry.count(Count.MODEL_TOKENS, more.output, "written")
        self._telemetry.count(Count.MODEL_DOLLARS, more.cost)
        before: ModelUse = getattr(self._own, "use", ModelUse())
        self._own.use = ModelUse(
            before.calls + more.calls,
            before.input + more.input,
            before.output + more.output,
            before.cost + more.cost,
        )

    def share(self) -> float:
        """Return the share of today's budget that is spent, of the resource that is nearest to its
        end.
        """
        with self._lock:
            return self._share(self._today())

    def _share(self, spent: DailySpending) -> float:
        bounds = ((spent.calls, self._budget.now.calls), (spent.tokens, self._budget.now.tokens))
        shares = [used / bound if bound else 1.0 for used, bound in bounds]
        return max(*shares, spent.cost / self._budget.now.cost if self._budget.now.cost else 0.0)

    def _today(self) -> DailySpending:
        day = to_text(self._clock())[:10]
        if day != self._spent.day:
            last = self._file.last()
            self._spent = last if last.day == day else DailySpending(day)
        return self._spent

    def _set(self, spent: DailySpending) -> None:
        self._spent = spent
        self._file.write(spent)
