"""Channels, told as stories."""

from collections.abc import Callable

import pytest

from tests.channels.conftest import ALEX, ALEX_MAIL, SAM, STRANGER, Post, here, home, reply
from tests.conftest import MovableClock, RunningServer
from tests.server.conftest import Failure, agent, at_once, delete_index, failure_of, files_with, moment, transcript, user

Start = Callable[..., RunningServer]
Reach = Callable[[RunningServer], Post]


def test_a_contact_writes_resets_writes_again_is_linked_to_mail_and_is_found_from_the_web(post: Post) -> None:
    first = home(post.whatsapp("The boiler is leaking"))
    assert home(post.whatsapp("It drips on the floor", "1555000@s.whatsapp.net")) == first
    post.append(first, agent("I called the plumber."))
    new = post.whatsapp("/new")
    second = home(new)
    assert second != first
    assert home(post.whatsapp("What about the plumber?", "001555000")) == second
    assert [post.get(it).pinned for it in (first, second)] == [False, True]
    third = home(post.mail("The plumber sent his bill", "<bill@mail>", subject="Bill"))
    assert set(post.found("plumber", participants=[ALEX])) == {first, second}
    post.link("Alex", ("whatsapp", "+1555000"), ("email", "alex@example.org"))
    assert set(post.found("plumber", participants=["Alex"])) == {first, second, third}
    assert set(post.found("plumber", participants=["alex@example.org"])) == {first, second, third}
    assert post.said(first) == ["The boiler is leaking", "It drips on the floor", "I called the plumber."]
    assert post.said(third) == ["The plumber sent his bill"]
