"""Contexts, anchors and tiers through the client, sync and async."""

import json
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
from recollect import (
    AnchorDisposition,
    AnchorSource,
    AsyncClient,
    Client,
    ContextBudget,
    ContextFormat,
    ContextTier,
    ConversationPart,
    ErrorReason,
    FailedPrecondition,
    InvalidArgument,
    Message,
    NotFound,
    TurnRange,
)

from tests.conftest import RunningServer


@pytest_asyncio.fixture
async def async_client(server: RunningServer) -> AsyncIterator[AsyncClient]:
    async with AsyncClient(server.target) as connected:
        yield connected


def test_a_context_is_built_and_rendered(client: Client) -> None:
    there = client.conversations.create("web").id
    client.conversations.append_turn(there, [Message.user("The zebra lives in Ghent.")])
    here = client.conversations.create("web").id
    stored = client.conversations.append_turn(
        here, [Message.user("I am Alex."), Message.assistant("Hello " * 9000)]
    ).messages
    client.recall.set_anchor("name", "Alex", source=(here, stored[0].sequence), confidence=0.8)
    context = client.recall.build_context(
        here, "Where is the zebra?", budget=1000, format=ContextFormat.OPENAI_MESSAGES
    )
    assert context.hot[0].message.content == "I am Alex."
    assert "tokens left out" in context.hot[1].message.content
    assert context.rendered_tokens <= 1000
    assert [(it.conversation_id, it.message.content) for it in context.cold] == [
        (there, "The zebra lives in Ghent.")
    ]
    assert [it.tier for it in context.allocation] == [
        ContextTier.HOT,
        ContextTier.WARM,
        ContextTier.COLD,
    ]
    assert [(it.key, it.source) for it in context.anchors] == [("name", AnchorSource(here, 2))]
    assert (context.compression_summary, context.degraded) == ("", ())
    assert json.loads(context.rendered)[-1] == {"role": "user", "content": "Where is the zebra?"}
    chosen = client.recall.build_context(
        here,
        "Where is the zebra?",
        sender="Alex",
        include=[ConversationPart(here, TurnRange(1, 1))],
        exclude=[ConversationPart(there)],
        marks=True,
    )
    assert (chosen.cold, 'tier="hot"' in chosen.rendered) == ((), True)
    assert chosen.system_prompt.startswith("You are given")
    small = client.recall.build_context(
        here, "Where is the zebra?", budget=ContextBudget(hot=1, warm=1, cold=1, total=3)
    )
    assert (small.hot, small.warm, small.cold, small.rendered) == ((), (), (), "")


def test_anchors_are_set_listed_and_forgotten(client: Client) -> None:
    first = client.recall.set_anchor("name", "Alex")
    assert (first.confidence, first.source, first.superseded_time) == (1.0, None, None)
    second = client.recall.set_anchor("name", "Al")
    assert (second.supersedes, client.recall.list_anchors()) == ("Alex", (second,))
    assert [it.value for it in client.recall.list_anchors("name", include_superseded=True)] == [
        "Al",
        "Alex",
    ]
    assert [it.value for it in client.recall.delete_anchor("name")] == ["Al", "Alex"]
    with pytest.raises(NotFound) as raised:
        client.recall.delete_anchor("name")
    assert raised.value.metadata["name"] == "name"


def test_a_delete_says_what_becomes_of_anchors(client: Client) -> None:
    first, second = (client.conversations.create("web").id for _ in range(2))
    for number, here in enumerate((first, second)):
        client.conversations.append_turn(here, [Message.user("I am Alex.")])
        client.recall.set_anchor(f"name-{number}", "Alex", source=(here, 2))
    with pytest.raises(FailedPrecondition) as raised:
        client.conversations.delete(first)
    assert (raised.value.reason, raised.value.metadata["anchors"]) == (
        ErrorReason.ANCHORS_PRESENT,
        "1",
    )
    client.conversations.delete(first, anchors=AnchorDisposition.KEEP)
    client.conversations.delete(second, anchors=AnchorDisposition.DELETE)
    assert [(it.key, it.source) for it in client.recall.list_anchors()] == [("name-0", None)]


def test_wrong_arguments_are_refused_by_the_fields_name(client: Client) -> None:
    here = client.conversations.create("web").id
    for call, field in (
        (lambda: client.recall.build_context(here, budget="many"), "budget"),  # type: ignore[arg-type]
        (lambda: client.recall.build_context(here, format="poem"), "format"),  # type: ignore[arg-type]
        (lambda: client.recall.build_context(here, budget=-1), "budget.total"),
        (lambda: client.recall.set_anchor("name", "Alex", source=7), "source"),  # type: ignore[arg-type]
        (lambda: client.recall.set_anchor("Name", "Alex"), "key"),
        (lambda: client.conversations.delete(here, anchors="sell"), "anchors"),  # type: ignore[arg-type]
    ):
        with pytest.raises(InvalidArgument) as raised:
            call()
        assert [violation.field for violation in raised.value.violations] == [field]


async def test_the_async_client_does_the_same(async_client: AsyncClient) -> None:
    here = (await async_client.conversations.create("web")).id
    await async_client.conversations.append_turn(here, [Message.user("I am Alex.")])
    anchor = await async_client.recall.set_anchor("name", "Alex", source=AnchorSource(here, 2))
    assert await async_client.recall.list_anchors() == (anchor,)
    context = await async_client.recall.build_context(here, format=ContextFormat.XML)
    assert ">Alex</anchor>" in context.rendered
    page = await async_client.recall.list_tier_transitions_page(here)
    assert list(page.transitions) == []
    assert await async_client.recall.delete_anchor("name") == (anchor,)
