"""Daily spending on a model, and its limits."""

import threading
from collections.abc import Callable
from dataclasses import dataclass

from recollect_server.kernel.domain.conversation import ModelUse
from recollect_server.kernel.domain.live import Live
from recollect_server.kernel.domain.telemetry import UNMEASURED, Count, Telemetry
from recollect_server.kernel.domain.time import Clock, to_text
from recollect_server.notes.hosted.language_model import ModelUnavailable


@dataclass(frozen=True, slots=True)
class DailySpending:
    """Calls, tokens read and written, and what they cost in US dollars."""

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


class Spending:
    """Counts the calls of each day (UTC). Safe to call from any thread.

    `read` answers what was spent on a day, `write` keeps it: a restart does not begin anew.
    """

    def __init__(
        self,
        clock: Clock,
        budget: Live[SpendingLimits],
        read: Callable[[str], DailySpending],
        write: Callable[[str, DailySpending], None],
        telemetry: Telemetry = UNMEASURED,
    ) -> None:
        self._telemetry = telemetry
        self._clock = clock
        self._budget = budget
        self._read, self._write = read, write
        self._lock = threading.Lock()  # guards `_day` and `_spent`, and orders what is written
        self._day, self._spent = "", DailySpending()
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
                    f"the budget of {self._day} is spent: {spent.calls} calls, {spent.tokens} tokens{cost}"
                )
            self._set(DailySpending(spent.calls + 1, spent.tokens, spent.cost))
        self._count(ModelUse(1))

    def add(self, read: object, written: object) -> None:
        """Count the tokens of a call that was answered. What is no number counts as none."""
        tokens = [count if isinstance(count, int) else 0 for count in (read, written)]
        with self._lock:
            spent = self._today()
            cost = (
                tokens[0] * self._budget.now.input_price + tokens[1] * self._budget.now.output_price
            ) / 1_000_000
            self._set(DailySpending(spent.calls, spent.tokens + sum(tokens), spent.cost + cost))
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
        if day != self._day:
            self._day, self._spent = day, self._read(day)
        return self._spent

    def _set(self, spent: DailySpending) -> None:
        self._spent = spent
        self._write(self._day, spent)
