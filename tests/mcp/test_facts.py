"""The tools for lasting facts: what they list, how each change is undone, and its record."""

import json
from typing import Any

import pytest
from recollect import AsyncClient, Client, Conversation, Message
from recollect.mcp.definitions import EVERY, answer
from recollect_server.access.audit_file import read_audit

from tests.conftest import RunningServer, Start
from tests.mcp.conftest import UNKNOWN
from tests.waiting import until

SAID = "I am allergic to shellfish."


@pytest.fixture
def server(start_server: Start) -> RunningServer:
    """Start a server with the model, without which nobody has a profile."""
    return start_server(embedder="onnx")


@pytest.fixture
def conversation(client: Client) -> Conversation:
    """Return a conversation whose only message is in the profile."""
    made = client.conversations.create("web")
    client.conversations.append_turn(made.id, [Message.user(SAID)])
    until(lambda: [it.text for it in client.recall.get_profile().statements] == [SAID])
    return made


async def done(server: RunningServer, name: str, **arguments: Any) -> Any:
    """Return the answer of a tool that must succeed."""
    async with AsyncClient(server.target) as client:
        outcome = await answer(client, name, arguments, offered=EVERY)
    assert not outcome.is_error, outcome.text
    return json.loads(outcome.text)


async def refusal(server: RunningServer, name: str, arguments: Any) -> str:
    """Return the text of a call that must fail."""
    async with AsyncClient(server.target) as client:
        outcome = await answer(client, name, arguments, offered=EVERY)
    assert outcome.is_error
    return outcome.text


async def test_facts_have_their_times_and_their_source(
    server: RunningServer, client: Client, conversation: Conversation
) -> None:
    server.clock.move(60_000)
    client.recall.set_anchor("home.city", "Bonn", source=(conversation.id, 2))
    server.clock.move(60_000)
    client.recall.set_anchor("home.city", "Rome")
    source = {"conversationId": conversation.id, "sequence": 2}
    since = "2026-09-21T14:13:20.000Z"
    when = "Monday 21 September 2026, 14:13 UTC"
    earlier = {"since": "2026-09-21T14:14:20.000Z", "when": "Monday 21 September 2026, 14:14 UTC"}
    later = {"since": "2026-09-21T14:15:20.000Z", "when": "Monday 21 September 2026, 14:15 UTC"}
    rome = {"fact": "home.city", "text": "Rome", "kind": "fact", "until": None, "source": None}
    shellfish = {"fact": f"{conversation.id}.2.0", "text": SAID, "kind": "health", "until": None}
    now = await done(server, "list_facts")
    assert now == {
        "facts": [rome | later, shellfish | {"since": since, "when": when, "source": source}],
        "total": 2,
        "degraded": None,
        "continuation": None,
    }
    then = await done(server, "list_facts", asOf="2026-09-21T14:15:00Z")
    assert [(it["text"], it["until"]) for it in then["facts"]] == [("Bonn", None), (SAID, None)]
    assert (await done(server, "list_facts", asOf="2026-09-20"))["facts"] == []
    assert (await done(server, "list_facts", asOf="2026-09-21"))["facts"] == now["facts"]
    past = await done(server, "list_facts", includePast=True, offset=1, limit=1)
    bonn = {"text": "Bonn", "until": "2026-09-21T14:15:20.000Z", "source": source}
    assert past["facts"] == [rome | earlier | bonn]
    assert past["continuation"] == 'There are 1 more: ask again with "offset": 2.'
    last = await done(server, "list_facts", includePast=True, offset=2)
    assert [it["text"] for it in last["facts"]] == [SAID]


async def test_each_change_answers_the_call_that_undoes_it_and_is_audited(
    server: RunningServer, client: Client, conversation: Conversation
) -> None:
    client.recall.set_anchor("home.city", "Bonn", source=(conversation.id, 2))
    statement = f"{conversation.id}.2.0"
    # A message is never changed: a statement that was taken away comes back as a fact with a key.
    anchor = {"fact": statement.lower(), "kind": "fact"}
    for name, arguments, undo, is_statement in (
        ("remember", {"key": "pet", "value": "a cat"}, "forget", False),
        ("remember", {"key": "home.city", "value": "Rome"}, "remember", False),
        ("correct", {"fact": "home.city", "value": "Rome"}, "remember", False),
        ("forget", {"fact": "home.city"}, "remember", False),
        ("correct", {"fact": statement, "value": "Allergic to nuts."}, "remember", True),
        ("forget", {"fact": statement.lower()}, "remember", False),
    ):
        before = (await done(server, "list_facts"))["facts"]
        changed = await done(server, name, **arguments)
        assert changed["undo"]["tool"] == undo
        assert (await done(server, "list_facts"))["facts"] != before
        await done(server, undo, **changed["undo"]["arguments"])
        after = (await done(server, "list_facts"))["facts"]
        expected = [it | anchor if is_statement and it["text"] == SAID else it for it in before]
        assert sorted(map(str, after)) == sorted(map(str, expected)), name
    assert (await done(server, "remember", key="home.city", value="Bonn"))["undo"] is None
    corrected = await done(server, "correct", fact="home.city", value="Rome")
    assert {**corrected, "undo": None} == {
        "fact": "home.city", "before": "Bonn", "after": "Rome", "undo": None,
    }  # fmt: skip
    records = [str(it["method"]) for _, _, it in read_audit(server.data_dir) if it]
    changes = [it.removeprefix("RecallService.") for it in records]
    set_and_set, set_and_delete = ["SetAnchor"] * 2, ["SetAnchor", "DeleteAnchor"]
    assert changes == [
        "SetAnchor",
        *set_and_delete,
        *set_and_set,
        *set_and_set,
        *reversed(set_and_delete),
        *["SetAnchor", "RemoveProfileStatement", "SetAnchor"],
        *reversed(set_and_delete),
        *set_and_set,
    ]


async def test_a_statement_that_is_forgotten_can_be_remembered_again(
    server: RunningServer, conversation: Conversation
) -> None:
    forgotten = await done(server, "forget", fact=f"{conversation.id}.2.0")
    assert (forgotten["before"], forgotten["after"]) == (SAID, None)
    assert (await done(server, "list_facts"))["facts"] == []
    await done(server, forgotten["undo"]["tool"], **forgotten["undo"]["arguments"])
    [again] = (await done(server, "list_facts"))["facts"]
    assert (again["text"], again["source"]["sequence"]) == (SAID, 2)


@pytest.mark.parametrize(
    ("name", "arguments", "sentence"),
    [
        ("forget", {"fact": "nothing"}, "fact: there is none with the name nothing; list_facts"),
        ("correct", {"fact": f"{UNKNOWN}.1.0", "value": "x"}, "fact: there is none"),
        ("correct", {"fact": "Home City", "value": "x"}, "fact: String should match pattern"),
        ("forget", {}, "fact: Field required"),
        ("remember", {"key": "Home City", "value": "Bonn"}, "key: "),
        ("remember", {"key": "city", "value": "x" * 1001}, "value: "),
        (
            "remember",
            {"key": "a", "value": "b", "source": {"sequence": 1}},
            "source.conversationId",
        ),
        (
            "remember",
            {"key": "a", "value": "b", "source": {"conversationId": UNKNOWN, "sequence": 1}},
            "onversation",
        ),
        ("list_facts", {"limit": 0}, "limit: "),
        ("list_facts", {"asOf": "in March"}, "asOf: "),
        ("list_facts", {"includePast": 1, "offset": -1}, "offset: "),
        ("list_facts", "no JSON", "arguments: "),
    ],
)
async def test_wrong_arguments_are_named(
    start_server: Start, name: str, arguments: Any, sentence: str
) -> None:
    server = start_server()
    assert sentence in await refusal(server, name, arguments)
    with Client(server.target) as client:
        assert client.recall.list_anchors(include_superseded=True) == ()
