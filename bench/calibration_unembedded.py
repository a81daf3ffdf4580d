"""The questions that `bench.calibrate` learns from, as if a conversation were not embedded yet.

What was just said is found by its words alone, beside everything else that is found by meaning too.
For each question the conversation of the best message is taken so, and that of the message with the
highest BM25.
"""

from collections.abc import Iterator, Sequence
from dataclasses import fields, replace

import numpy as np
from numpy.typing import NDArray
from recollect_server.recall.calibration import way_of
from recollect_server.recall.retrievers import ConversationLegs, MessageLegs

from bench.calibration_cases import Case

# what the vectors of a message, or what is kept beside them, say of it
_OF_MESSAGES = frozenset({"vector", "vector_before", "role", "named"})
_OF_CONVERSATIONS = ("vector",)


def unembedded_cases(cases: Sequence[Case]) -> Iterator[Case]:
    """Yield each question as it would be answered without the vectors of a conversation. Long
    conversations are left out: what their sections say of them cannot be taken apart.
    """
    for it in cases:
        _, messages, _, sections = it.fusing
        if sections is None:
            best = int(it.fused().messages.argmax()), int(messages.keyword.argmax())
            for at in dict.fromkeys(int(messages.conversation[message]) for message in best):
                case = without_vectors(it, at)
                if way_of(case.messages, case.conversations) == "meaning":
                    yield case


def without_vectors(it: Case, at: int) -> Case:
    """Return the question as if the conversation of this index were not embedded. Of its messages
    only those remain that words find: with any of them, or beside one that has any.
    """
    question, messages, conversations, _ = it.fusing
    inside = messages.conversation == at
    keyword = messages.keyword + messages.keyword_before[0] + messages.keyword_after[0]
    keep = ~inside | (keyword > 0)
    right = it.right_conversations.copy()
    right[at] &= conversations.keyword[at] > 0
    fusing = (
        question,
        _messages(messages, inside, keep),
        _conversations(conversations, at),
        None,
    )
    return replace(
        it,
        fusing=fusing,
        matches=None,
        messages=_messages(it.messages, inside, keep),
        conversations=_conversations(it.conversations, at),
        right_messages=it.right_messages[keep],
        right_conversations=right,
    )


def _messages(
    legs: MessageLegs, unknown: NDArray[np.bool_], keep: NDArray[np.bool_]
) -> MessageLegs:
    values = {}
    for name in (it.name for it in fields(legs)):
        value = getattr(legs, name)
        if name in _OF_MESSAGES:
            value = np.where(unknown, np.nan, value)
        values[name] = value[..., keep]
    return replace(legs, **values)


def _conversations(legs: ConversationLegs, at: int) -> ConversationLegs:
    values = {name: getattr(legs, name).copy() for name in (*_OF_CONVERSATIONS, "mean_vector")}
    for name in _OF_CONVERSATIONS:
        values[name][at] = np.nan
    values["mean_vector"][at : at + 1] = 0  # empty where it was not kept
    return replace(legs, **values)
