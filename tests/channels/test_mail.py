"""E-mail threads, told as stories."""

from typing import Any

import apsw
import hypothesis
from hypothesis import strategies as st

from tests.channels.conftest import Post, here, home
from tests.conftest import RunningServer
from tests.server.conftest import agent, at_once, files_with, kept_by


def test_a_thread_is_followed_by_what_it_answers_and_by_its_references(post: Post) -> None:
    first = post.mail("The bill", "<a@mail>", subject="Bill")
    thread = home(first)
    assert home(post.mail("Paid", "<b@mail>", "<a@mail>")) == thread
    assert (
        home(post.mail("Thanks", "<c@mail>", "<lost@mail>", ["<a@mail>", "<lost@mail>"])) == thread
    )
    assert home(post.mail("Another bill", "<d@mail>", subject="Bill")) != thread
    party = here(first).party
    assert (party.contact, party.thread_id, party.subject) == ("alex@example.org", "a@mail", "Bill")
    headers: Any = post.load(thread).messages[2].metadata["email"]
    assert (headers["message_id"], headers["in_reply_to"], list(headers["references"])) == (
        "c@mail",
        "lost@mail",
        ["a@mail", "lost@mail"],
    )


def test_angle_brackets_and_folded_headers_make_no_difference(post: Post) -> None:
    thread = home(post.mail("One", "<a@mail>"))
    assert home(post.mail("Two", "b@mail", " a@mail ")) == thread
    assert home(post.mail("Three", "<c@mail>", references=["<x@mail>\r\n <b@mail>"])) == thread
    assert home(post.mail("Four", "<A@mail>")) != thread


def test_a_chain_forks_and_stays_one_thread(post: Post) -> None:
    root = home(post.mail("Where do we meet?", "<a@mail>"))
    left = home(post.mail("In the park", "<b@mail>", "<a@mail>", ["<a@mail>"]))
    right = home(post.mail("At the station", "<c@mail>", "<a@mail>", ["<a@mail>"]))
    assert home(post.mail("Which park?", "<d@mail>", "<b@mail>", ["<a@mail>", "<b@mail>"])) == root
    assert left == right == root


def test_a_thread_whose_first_message_arrives_last_is_one(post: Post) -> None:
    third = home(post.mail("Third", "<c@mail>", "<b@mail>", ["<a@mail>", "<b@mail>"]))
    assert home(post.mail("Second", "<b@mail>", "<a@mail>", ["<a@mail>"])) == third
    assert home(post.mail("First", "<a@mail>")) == third


def test_a_message_that_never_arrives_leaves_its_thread_whole(post: Post) -> None:
    one = home(post.mail("I answer what you never saw", "<b@mail>", "<never@mail>"))
    assert home(post.mail("So do I", "<c@mail>", "<never@mail>")) == one


def test_two_threads_that_turn_out_to_be_one_go_on_in_the_one_that_began_first(post: Post) -> None:
    older, younger = (
        home(post.mail("The roof", "<a@mail>")),
        home(post.mail("The tiles", "<b@mail>")),
    )
    assert (
        home(post.mail("Roof and tiles", "<c@mail>", "<b@mail>", ["<a@mail>", "<b@mail>"])) == older
    )
    assert home(post.mail("Red tiles", "<d@mail>", "<b@mail>")) == older
    assert home(post.mail("On the roof", "<e@mail>", "<d@mail>")) == older
    assert [post.get(it).pinned for it in (older, younger)] == [True, False]
    assert (post.said(younger), post.said(older)[0]) == (["The tiles"], "The roof")
    assert home(post.web("The tiles, from the desk", younger)) == younger


def test_an_answer_that_was_sent_is_known_by_the_id_that_the_agent_says(post: Post) -> None:
    thread = home(post.mail("Is the disk full?", "<a@mail>"))
    sent = agent("Yes.")
    sent.metadata.update({"email": {"message_id": "<sent@agent>"}})
    post.append(thread, sent)
    assert home(post.mail("Then clean it", "<b@mail>", "<sent@agent>")) == thread


def test_a_new_conversation_in_a_thread_takes_what_comes_after(post: Post) -> None:
    old = home(post.mail("The roof", "<a@mail>", subject="Roof"))
    answer = post.mail("/new", "<b@mail>", "<a@mail>", subject="Re: Roof")
    new = home(answer)
    assert new != old
    assert here(answer).party.subject == "Roof"
    assert home(post.mail("The tiles", "<c@mail>", "<b@mail>", ["<a@mail>", "<b@mail>"])) == new
    assert home(post.mail("To the first one", "<d@mail>", "<a@mail>")) == new
    assert [post.get(it).pinned for it in (old, new)] == [False, True]
    post.delete(new)
    assert home(post.mail("To the first one again", "<e@mail>", "<a@mail>")) == old


def test_a_cleared_thread_goes_on_in_the_new_conversation(post: Post) -> None:
    old = home(post.mail("The roof", "<a@mail>"))
    new = home(post.mail("/clear confirm", "<b@mail>", "<a@mail>"))
    assert old not in post.everything()
    assert home(post.mail("The tiles", "<c@mail>", "<a@mail>")) == new


def test_a_thread_that_began_with_a_command_goes_on(post: Post) -> None:
    first = home(post.mail("/help", "<a@mail>"))
    assert home(post.mail("Now then", "<b@mail>", "<a@mail>")) == first


def test_answers_that_come_at_the_same_moment_begin_one_thread(post: Post) -> None:
    for thread in range(5):
        homes = at_once(
            8,
            lambda number, thread=thread: home(
                post.mail(str(number), f"<{thread}-{number}@x>", f"<{thread}-root@x>")
            ),  # type: ignore[misc]
        )
        assert len(set(homes)) == 1
        assert len(post.said(homes[0])) == 8


def test_two_owners_share_a_thread(post: Post) -> None:
    post.own("email", "sam@example.org")
    thread = home(post.mail("Dinner?", "<a@mail>"))
    assert home(post.mail("Yes", "<b@mail>", "<a@mail>", sender="SAM@Example.ORG")) == thread
    assert list(post.get(thread).participants) == ["alex@example.org", "sam@example.org"]


def test_deleting_a_thread_takes_its_message_ids_along(server: RunningServer, post: Post) -> None:
    thread = home(
        post.mail(
            "The papaya", "<papaya-1@mail>", references=["<papaya-0@mail>"], delivery="imap-1"
        )
    )
    post.delete(thread)
    kept_by(post, server)
    assert not files_with(server.data_dir, "papaya")
    connection = apsw.Connection(
        str(server.folder / "conversations.db"), flags=apsw.SQLITE_OPEN_READONLY
    )
    assert connection.execute("SELECT count(*) FROM mail").get == 0
    connection.close()
    fresh = home(post.mail("Another", "<x@mail>", "<papaya-1@mail>"))
    assert fresh != thread
    assert (
        post.mail("The papaya", "<papaya-1@mail>", delivery="imap-1").WhichOneof("outcome") is None
    )


@st.composite
def threads(draw: st.DrawFn) -> tuple[list[tuple[int, list[int]]], list[int]]:
    """Draw messages, each with the earlier ones that it names (some never arrive), and an order of
    arrival.
    """
    count = draw(st.integers(2, 9))
    messages = [
        (at, draw(st.lists(st.integers(0, at - 1), max_size=3, unique=True)) if at else [])
        for at in range(count)
    ]
    arriving = draw(st.lists(st.sampled_from(messages), min_size=1, unique_by=lambda it: it[0]))
    return messages, [at for at, _ in arriving]


def components(named: dict[int, list[int]]) -> dict[int, int]:
    """Return the thread of each message: the smallest number that it is connected with, by messages
    that arrived or are only named.
    """
    parent: dict[int, int] = {}

    def find(it: int) -> int:
        parent.setdefault(it, it)
        while parent[it] != it:
            it = parent[it]
        return it

    for at, names in named.items():
        for name in [at, *names]:
            first, second = sorted((find(at), find(name)))
            parent[second] = first
    return {at: find(at) for at in named}


@hypothesis.settings(
    max_examples=60, suppress_health_check=[hypothesis.HealthCheck.function_scoped_fixture]
)
@hypothesis.given(case=threads())
@hypothesis.example(case=([(0, []), (1, []), (2, [0, 1]), (3, [1])], [0, 1, 3, 2]))
def test_in_whatever_order_messages_arrive_those_of_one_thread_end_in_one_place(
    post: Post, case: tuple[list[tuple[int, list[int]]], list[int]]
) -> None:
    messages, order = case
    names = dict(messages)
    prefix = next(Post.numbers)

    def name(number: int) -> str:
        return f"<{prefix}-{number}@mail>"

    for at in order:
        post.mail("Hi", name(at), references=[name(it) for it in names[at]])
    expected = components({at: names[at] for at in order})
    ends = {at: home(post.mail("Where?", f"<{prefix}-probe-{at}@mail>", name(at))) for at in order}
    assert {(expected[a] == expected[b], ends[a] == ends[b]) for a in order for b in order} <= {
        (True, True),
        (False, False),
    }


def test_an_address_in_place_of_a_message_id_joins_no_threads(post: Post) -> None:
    """Old mailers answer with the address of whom they answer."""
    first = home(post.mail("The bill", "<a@mail>"))
    for number, answers in enumerate(
        (
            "<alex@example.org>",
            "alex@example.org",
            "bob@corp.example",
            'Your message of "Mon, 2 Jan" <agent@mail>',
            "Agent <agent@mail>",
        )
    ):
        mails = [home(post.mail("Re: a bill", f"<{number}.{it}@mail>", answers)) for it in range(2)]
        assert len({first, *mails}) == 3, answers
    assert home(post.mail("Paid", "<b@mail>", "Your message of Monday <a@mail>")) == first
    assert home(post.mail("Really", "<c@mail>", "<b@mail>")) == first
