"""An agent writes first: it begins a pinned conversation, and what is answered over the channel
joins it.
"""

import pytest
from recollect.v1.conversation_pb2 import Party
from recollect.v1.message_pb2 import Message

from tests.cases import each
from tests.channels.conftest import ALEX, Post, Reach, home
from tests.conftest import RunningServer, Start
from tests.server.conftest import agent, assert_refused, at_once, delete_index, failure_of, moment


def says(post: Post, channel: str, text: str, **party: str) -> str:
    """Begin a conversation in which the agent writes first, and return its id."""
    name = post.create(channel, party=Party(**party), pinned=True).id
    post.append(name, agent(text))
    return name


def test_the_reply_on_whatsapp_joins_what_the_agent_began(post: Post) -> None:
    name = says(post, "whatsapp", "The disk is full.", contact="+1 (555) 000")
    assert post.get(name).pinned
    assert home(post.whatsapp("Clean it up.")) == name
    assert [(it.turn_number, it.content) for it in post.load(name).messages] == [
        (1, "The disk is full."),
        (2, "Clean it up."),
    ]


def test_its_first_words_are_stored_with_it_or_not_at_all(post: Post) -> None:
    party = Party(contact=ALEX, contact_name="Alex")
    name = post.create(
        "whatsapp", party=party, pinned=True, messages=[agent("The disk is full.")]
    ).id
    assert home(post.whatsapp("Clean it up.")) == name
    assert post.said(name) == ["The disk is full.", "Clean it up."]
    elsewhere = [agent("The disk is full.", channel="web")]
    failure = failure_of(
        lambda: post.create("whatsapp", party=party, pinned=True, messages=elsewhere)
    )
    assert failure.reason == "CONVERSATION_READ_ONLY"
    assert post.get(name).pinned


def test_the_reply_in_a_group_joins_it(post: Post) -> None:
    name = says(post, "whatsapp", "Dinner at eight?", group_id="120363")
    assert home(post.whatsapp("Yes", group="120363@g.us")) == name


@pytest.mark.parametrize(
    ("party", "place"),
    [
        ({"contact": "<@77>"}, {"dm_user_id": "77"}),
        ({"thread_id": "discord:dm:77"}, {"dm_user_id": "77"}),
        ({"thread_id": "discord:channel:9"}, {"channel_id": "9"}),
        ({"thread_id": "discord:thread:9"}, {"thread_id": "9"}),
    ],
)
def test_the_reply_on_discord_joins_it(
    post: Post, party: dict[str, str], place: dict[str, str]
) -> None:
    post.own("discord", "77")
    name = says(post, "discord", "Deployed.", **party)
    assert home(post.discord("Good", **place)) == name


def test_the_reply_on_a_command_line_and_on_another_channel_joins_it(post: Post) -> None:
    name = says(post, "cli", "Built again.", thread_id="cli:build")
    assert home(post.cli("Good", "build")) == name
    name = says(post, "cli", "Hello.")
    assert home(post.cli("Hi")) == name
    post.own("matrix", "@alex:x.org")
    name = says(post, "matrix", "Hello.", contact="@alex:x.org")
    assert home(post.deliver("matrix", "Hi", "@alex:x.org")) == name


def test_the_reply_to_a_mail_joins_the_thread_that_the_agent_began(post: Post) -> None:
    name = post.create(
        "email", party=Party(contact="Alex@Example.org", subject="Disk"), pinned=True
    ).id
    sent = Message()
    sent.CopyFrom(agent("The disk is full."))
    sent.metadata.update({"email": {"message_id": "<sent@agent>", "subject": "Disk"}})
    post.append(name, sent)
    assert post.get(name).party.contact == "alex@example.org"
    assert home(post.mail("Clean it up.", "<1@x>", "<sent@agent>")) == name
    assert home(post.mail("Something else", "<2@x>")) != name


def test_it_takes_the_place_of_the_one_that_was_pinned_there(post: Post) -> None:
    before = home(post.whatsapp("Hello"))
    name = says(post, "whatsapp", "The disk is full.", contact="1555000")
    assert [post.get(it).pinned for it in (before, name)] == [False, True]
    assert home(post.whatsapp("Clean it up.")) == name
    assert post.said(before) == ["Hello"]
    post.append(before, agent("It goes on from the web.", channel="web"))


def test_a_repeated_create_begins_one_and_takes_no_place_back(post: Post) -> None:
    def create() -> str:
        return post.create(
            "whatsapp",
            party=Party(contact=ALEX),
            pinned=True,
            messages=[agent("Good morning!")],
            request_id="first-1",
        ).id

    name = create()
    assert create() == name
    post.append(name, agent("The disk is full."))
    later = home(post.whatsapp("/new"))
    assert create() == name
    assert [post.get(it).pinned for it in (name, later)] == [False, True]
    assert home(post.whatsapp("Hi")) == later
    again = failure_of(
        lambda: post.create("whatsapp", party=Party(contact=ALEX), request_id="first-1")
    )
    assert again.reason == "REQUEST_ID_REUSED"


def test_an_imported_conversation_goes_on_over_its_channel(post: Post) -> None:
    name = post.create(
        "whatsapp", party=Party(contact=ALEX), pinned=True, create_time=moment(1_600_000_000_000)
    ).id
    post.append(name, agent("Long ago", timestamp=moment(1_600_000_000_000)))
    assert home(post.whatsapp("Now")) == name


def test_the_place_is_found_after_a_restart_and_with_a_new_index(
    post: Post, server: RunningServer, start_server: Start, reach: Reach
) -> None:
    home(post.whatsapp("Hello"))
    name = says(post, "whatsapp", "The disk is full.", contact="1555000")
    server.stop()
    server = start_server()
    assert home(reach(server).whatsapp("One")) == name
    server.stop()
    delete_index(server)
    assert home(reach(start_server()).whatsapp("Two")) == name


def test_several_at_once_leave_one_pinned_which_takes_what_comes_in(post: Post) -> None:
    names = at_once(6, lambda _: post.create("whatsapp", party=Party(contact=ALEX), pinned=True).id)
    pinned = [name for name in names if post.get(name).pinned]
    assert len(pinned) == 1
    assert home(post.whatsapp("Hi")) == pinned[0]


@each(
    ("channel", "party", "field"),
    [
        ("web", {}, "pinned"),
        ("whatsapp", {}, "party"),
        ("whatsapp", {"contact": "1", "group_id": "2@g.us"}, "party"),
        ("email", {"contact": "nobody"}, "party"),
        ("email", {"subject": "Disk"}, "party"),
        ("discord", {}, "party"),
        ("discord", {"thread_id": "9"}, "party"),
        ("discord", {"contact": "78", "thread_id": "discord:dm:77"}, "party"),
        ("discord", {"contact": "78", "thread_id": "discord:channel:77"}, "party"),
        ("cli", {"thread_id": "build"}, "party"),
        ("cli", {"contact": "alex"}, "party"),
    ],
)
def test_a_pinned_one_needs_a_place(
    post: Post, server: RunningServer, channel: str, party: dict[str, str], field: str
) -> None:
    assert_refused(
        post, server, lambda: post.create(channel, party=Party(**party), pinned=True), field
    )


def test_without_pinned_a_create_takes_no_place(post: Post) -> None:
    before = home(post.whatsapp("Hello"))
    assert not post.create("whatsapp", party=Party(contact="1555000")).pinned
    assert home(post.whatsapp("Again")) == before


def test_a_conversation_that_the_agent_begins_has_the_name_that_is_known(post: Post) -> None:
    post.whatsapp("Hello", sender_name="Alex Reed")
    post.whatsapp("Hello", "+1 777", sender_name="Sam")
    mobile = ("+55 31 98888-8888", "553188888888")  # one number, in two spellings
    post.whatsapp("Hello", mobile[1], sender_name="Ana")
    for contact, name in (
        (ALEX, "Alex Reed"),
        ("+1 777", "Sam"),
        (mobile[0], "Ana"),
        ("+1 778", ""),
    ):
        party = Party(contact=contact)
        conversations = [post.create("whatsapp", party=party, pinned=it) for it in (False, True)]
        assert [it.party.contact_name for it in conversations] == [name, name]
    given = post.create("whatsapp", party=Party(contact=ALEX, contact_name="Mum"), pinned=True)
    assert given.party.contact_name == "Mum"
    imported = post.create("whatsapp", party=Party(contact=ALEX), create_time=moment(1))
    assert imported.party.contact_name == ""
