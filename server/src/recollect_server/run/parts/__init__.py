"""The list of parts: what each feature gives to an open space of a server, in the order in which
they use each other. `run.features` lists what features have in the logs and the index, which
commands need that serve nobody.
"""

from recollect_server.run.parts import (
    channels,
    checkpoints,
    context,
    conversations,
    insight,
    notes,
    people,
    recall,
    retention,
    upkeep,
)
from recollect_server.run.parts.opening import SpacePart

PARTS = (
    SpacePart(upkeep.register),
    SpacePart(checkpoints.register),
    SpacePart(people.register, people.read),
    SpacePart(notes.register),
    SpacePart(conversations.register),
    SpacePart(retention.register),
    SpacePart(recall.register, recall.read),
    SpacePart(context.register, context.read),
    SpacePart(channels.register),
    SpacePart(insight.register),
)
