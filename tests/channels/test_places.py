"""Every channel finds its conversation by a rule of its own."""

import pytest
from recollect_server.kernel.space import projection

from tests.channels.conftest import ALEX, Post, Reach, home
from tests.conftest import MovableClock, Start
from tests.server.conftest import failure_of


def test_discord_keeps_direct_messages_channels_and_threads_apart(post: Post) -> None:
    post.own("discord", "77")
    post.own("discord", "<@78>")
    names = [{"dm_user_id": "77"}, {"channel_id": "77"}, {"thread_id": "77"}, {"channel_id": "78"}]
    homes = [home(post.discord("Hi", **name)) for name in names]
    assert len(set(homes)) == 4
    assert [home(post.discord("Again", **name)) for name in names] == homes
    assert home(post.discord("I too", "<@!78>", channel_id="77")) == homes[1]
    assert home(post.deliver("discord", "Direct", "77")) == homes[0]
    assert [post.get(it).party.thread_id for it in homes[:3]] == [
        "discord:dm:77",
        "discord:channel:77",
        "discord:thread:77",
    ]


def test_the_command_line_has_its_sessions_by_name(post: Post) -> None:
    default, work = home(post.cli("Hi")), home(post.cli("Hi", "work"))
    assert default != work
    assert (
        home(post.cli("Again", "default"))
        == home(post.deliver("cli", "Without an origin"))
        == default
    )
    anew = home(post.cli("/new", "work"))
    assert home(post.cli("Hi", "work")) == anew
    assert home(post.cli("Hi")) == default
    assert [post.get(it).party.thread_id for it in (default, anew)] == ["cli:default", "cli:work"]


def test_the_web_goes_on_with_the_most_recent_one_or_the_one_named(
    post: Post, clock: MovableClock
) -> None:
    first = home(post.web("Hello"))
    clock.move(1000)
    second = post.create("web").id
    assert home(post.web("To the newer one")) == second
    clock.move(1000)
    assert home(post.web("To the older one", first)) == first
    clock.move(1000)
    assert home(post.web("Which is the most recent now")) == first
    clock.move(1000)
    third = home(post.web("/new"))
    assert home(post.web("Anew")) == third not in (first, second)
    assert not post.get(third).pinned
    assert (
        failure_of(lambda: post.web("To nobody", "conv-01J00000000000000000000000")).reason
        == "CONVERSATION_NOT_FOUND"
    )


def test_any_other_channel_has_a_conversation_for_each_sender(post: Post) -> None:
    post.own("matrix", "@alex:example.org")
    post.own("matrix", "@sam:example.org")
    alex, sam = (
        home(post.deliver("matrix", "Hi", f"@{name}:example.org")) for name in ("alex", "sam")
    )
    assert alex != sam
    assert home(post.deliver("matrix", "Again", " @alex:example.org ")) == alex
    assert post.get(alex).party.contact == "@alex:example.org"


def test_a_place_has_its_new_conversation_also_where_the_old_one_was_looked_up(
    start_server: Start, reach: Reach, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(projection, "_PRUNE", 0)  # what the index has taken in is asked of it
    post = reach(start_server())
    places = ("+1 555-001", "+1 555-002")
    for place in (ALEX, *places):
        post.own("whatsapp", place)

    def settle() -> None:
        for place in places:
            post.whatsapp("/new", place)
            post.listed()  # answered once the index has taken in everything

    first = home(post.whatsapp("Before"))
    settle()
    assert home(post.whatsapp("Still here")) == first
    second = home(post.whatsapp("/new"))
    settle()
    assert home(post.whatsapp("And now here")) == second != first
