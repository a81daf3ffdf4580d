"""Candidates with legs that are made up: one conversation of four messages after the other."""

from dataclasses import fields, replace

import numpy as np
import pytest
from recollect_server.recall.model.marks import ASSISTANT, USER
from recollect_server.recall.retrievers import ConversationLegs, MessageLegs, Question

DAY = 86_400_000
NOW = 1_700_000_000_000
QUESTION = Question("What did Alex say about the boat?")
Legs = tuple[MessageLegs, ConversationLegs]


def made(conversations: int, *, seed: int = 1) -> Legs:
    """Return random candidates, the same for the same seed."""
    random = np.random.default_rng(seed)
    count = 4 * conversations
    cosines, words = (
        random.uniform(0, 0.7, (4, count)),
        np.maximum(0, random.normal(0, 4, (5, count))),
    )
    means = random.normal(size=(conversations, 384)).astype(np.float32)
    near = random.uniform(0.1, 0.7, (6, conversations))[[0, 1, 2, 4, 5]]
    begin = NOW - DAY * np.arange(conversations, 0, -1.0)
    messages = MessageLegs(
        conversation=np.repeat(np.arange(conversations), 4),
        keyword=words[0],
        keyword_before=words[1:3],
        keyword_after=words[3:5],
        vector=cosines[0],
        vector_before=cosines[1],
        tokens=random.integers(3, 200, count).astype(float),
        sequence=np.tile(np.arange(2.0, 6.0), conversations),
        time=np.repeat(begin, 4) + np.tile(np.arange(4.0), conversations),
        role=np.tile([USER, ASSISTANT], 2 * conversations).astype(float),
        sender=np.tile([USER, ASSISTANT], 2 * conversations).astype(float),
        named=random.integers(0, 2, count).astype(float),
    )
    above = ConversationLegs(
        keyword=np.maximum(0, random.normal(2, 4, conversations)),
        message_keyword=words[0].reshape(-1, 4).max(axis=1),
        vector=near[0],
        mean_vector=means / np.linalg.norm(means, axis=1, keepdims=True),
        abbreviation=np.where(random.random(conversations) < 0.5, np.nan, near[4]),
        messages=np.full(conversations, 4.0),
        begin=begin,
    )
    return messages, above


def blind(legs: Legs) -> Legs:
    """Return the same candidates without any values by meaning."""
    messages, above = legs
    nothing = {name: np.full(len(messages.time), np.nan) for name in BY_MEANING}
    unknown = {name: np.full(len(above.begin), np.nan) for name in _COSINES}
    return (
        replace(messages, **nothing),
        replace(above, **unknown, mean_vector=np.zeros_like(above.mean_vector)),
    )


def shuffled(legs: Legs, messages: list[int], conversations: list[int]) -> Legs:
    """Return the same candidates in another order."""
    of, above = legs
    places = np.argsort(conversations)
    taken = {field.name: getattr(of, field.name)[..., messages] for field in fields(of)}
    taken["conversation"] = places[taken["conversation"]]
    return MessageLegs(**taken), ConversationLegs(
        **{field.name: getattr(above, field.name)[conversations] for field in fields(above)}
    )


BY_MEANING = (
    "vector", "vector_before", "role", "sender", "named",
)  # fmt: skip
"""Values of a message that the model alone gives."""
_COSINES = ("vector", "abbreviation")


@pytest.fixture
def legs() -> Legs:
    """Return twelve conversations."""
    return made(12)
