"""The part of recall in a space: its vectors, which follow what happens to conversations."""

from recollect_server.kernel.space.events import Deleted, Redacted, Resting, Unindexed
from recollect_server.people.identities import Identities
from recollect_server.recall.embedding.service import Embedding
from recollect_server.recall.meaning import Meaning
from recollect_server.recall.recall import Recall
from recollect_server.run.jobs.of_space import EmbedderJob
from recollect_server.run.parts.opening import Opening


def read(opening: Opening) -> None:
    meaning = opening.give(Meaning(opening.space.store.root, opening.shared.models))
    opening.stops.append(meaning.close)
    opening.give(Recall(opening.space, meaning, opening.service(Identities)))


def register(opening: Opening) -> None:
    space, shared, meaning = opening.space, opening.shared, opening.service(Meaning)
    space.subscribe(Deleted, meaning.forget)
    space.subscribe(Redacted, meaning.redact)
    space.subscribe(Unindexed, meaning.unindex)
    space.subscribe(Resting, meaning.rest)
    if shared.workers is not None:
        opening.start(
            EmbedderJob(
                Embedding(space, meaning, shared.workers, shared.embedding_share, shared.stopping)
            )
        )
