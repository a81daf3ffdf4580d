"""The order of a space's locks is checked as threads take them: see `kernel.space.locks`."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from recollect_server.kernel.space.locks import Lock, LockOrder, LockOrderError, Locks, Rank


@pytest.fixture
def locks() -> Locks:
    """Return locks that check their order."""
    return Locks(LockOrder())


class NotedOrder(LockOrder):
    """The order of locks, with every rank that was taken."""

    def __init__(self) -> None:
        super().__init__()
        self.ranks: list[Rank] = []

    @contextmanager
    def checked(self, rank: Rank, lock: Lock) -> Iterator[None]:
        self.ranks.append(rank)
        with super().checked(rank, lock):
            yield


def test_locks_that_are_named_together_are_taken_in_their_order() -> None:
    order = NotedOrder()
    locks = Locks(order)
    with locks.exclusive(
        conversation="c", party="p", mails=["m", "n"], place="p", delivery="d", request="r"
    ):
        assert order.ranks == list(Rank)
    order.ranks.clear()
    with (
        locks.exclusive(request="r"),
        locks.exclusive(place="p", party="p"),
        locks.exclusive(conversation="c"),
    ):
        assert order.ranks == [Rank.REQUEST, Rank.PLACE, Rank.PARTY, Rank.CONVERSATION]


def test_a_lock_of_a_lower_rank_is_refused_while_one_of_a_higher_is_held(locks: Locks) -> None:
    with (
        locks.exclusive(conversation="c"),
        pytest.raises(LockOrderError, match="REQUEST lock is taken while CONVERSATION"),
        locks.exclusive(request="r"),
    ):
        pass


def test_two_locks_of_one_rank_are_refused_whatever_their_names(locks: Locks) -> None:
    with (
        locks.exclusive(conversation="a"),
        pytest.raises(LockOrderError, match="CONVERSATION"),
        locks.exclusive(conversation="b"),
    ):
        pass


def test_a_refused_lock_leaves_none_behind(locks: Locks) -> None:
    with (
        locks.exclusive(place="p"),
        pytest.raises(LockOrderError),
        locks.exclusive(request="r", conversation="c"),
    ):
        pass
    for _ in range(2):
        with locks.exclusive(request="r", conversation="c"):
            pass


def test_another_thread_may_hold_any_lock(locks: Locks) -> None:
    entered: list[str] = []

    def other() -> None:
        with locks.exclusive(request="r"):
            entered.append("r")

    with locks.exclusive(conversation="c"):
        thread = threading.Thread(target=other)
        thread.start()
        thread.join(30)
    assert entered == ["r"]


def test_a_name_keeps_others_out_until_it_is_released() -> None:
    locks = Locks()
    order: list[str] = []

    def other() -> None:
        with locks.exclusive(request="r", conversation="c"):
            order.append("second")

    with locks.exclusive(conversation="c"):
        thread = threading.Thread(target=other)
        thread.start()
        thread.join(0.05)
        with locks.exclusive(mails=[], all_mails=False):  # nothing is named
            order.append("first")
    thread.join(30)
    assert order == ["first", "second"]
