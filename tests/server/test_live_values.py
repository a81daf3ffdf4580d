"""Values that change while the server runs, and those that are made from them."""

import gc
import weakref
from functools import partial
from operator import floordiv

import pytest
from recollect_server.kernel.domain.live import Holder


def test_values_made_from_another_change_with_it() -> None:
    limits = Holder(3)
    doubled = limits.view(lambda limit: 2 * limit)
    shown = doubled.view(str)
    assert (doubled.now, shown.now) == (6, "6")
    limits.set(5)
    assert (doubled.now, shown.now) == (10, "10")


def test_a_value_lives_as_long_as_one_that_is_made_from_it_and_does_not_keep_that_alive() -> None:
    limits = Holder(3)
    doubled = limits.view(lambda limit: 2 * limit)
    shown = doubled.view(str)
    between = weakref.ref(doubled)
    del doubled
    gc.collect()
    limits.set(5)
    assert shown.now == "10"
    last = weakref.ref(shown)
    del shown
    gc.collect()
    assert (between(), last()) == (None, None), "a closed space would be kept by the settings"
    limits.set(7)


def test_followers_get_a_change_when_the_values_made_of_it_have_changed() -> None:
    limits = Holder(3)
    doubled = limits.view(lambda limit: 2 * limit)
    changes: list[tuple[int, int]] = []
    limits.follow(lambda limit: changes.append((limit, doubled.now)))
    limits.set(5)
    assert changes == [(5, 10)]


def test_a_value_that_cannot_be_made_keeps_no_other_one_old() -> None:
    limits = Holder(1)
    views = [limits.view(partial(floordiv, at)) for at in range(5)]
    followed: list[int] = []
    limits.follow(followed.append)
    broken = limits.view(lambda limit: 1 // (2 - limit))
    with pytest.raises(ZeroDivisionError):
        limits.set(2)
    assert [it.now for it in views] == [0, 0, 1, 1, 2]
    assert (broken.now, followed) == (1, [2])
