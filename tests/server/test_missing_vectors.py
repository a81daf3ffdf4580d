"""Messages that are not embedded yet: found by their words, and not behind others for that."""

from collections.abc import Sequence

import pytest
from recollect_server.recall.model.embedder import CannotEmbed, EmbeddedPiece, Embedder, Piece

from tests.conftest import Start
from tests.server.conftest import Connect
from tests.server.recall_history import HISTORY
from tests.waiting import until_embedded

# what somebody keeps, where, and a message about the same thing that says nothing of it
THINGS = (
    ("the spare key", "in the boathouse", "I keep forgetting where the spare key is."),
    ("the red canoe", "behind the bakery", "Where do people keep a red canoe in winter?"),
    ("the old ledger", "under the stairs", "We should keep the old ledger somewhere dry."),
    ("the brass compass", "at the station", "Who wants to keep the brass compass?"),
    ("the wool blankets", "in the loft", "Somebody has to keep the wool blankets clean."),
    ("the tide tables", "by the door", "I never keep the tide tables for long."),
    ("the seed boxes", "in the cellar", "Keep the seed boxes away from the mice."),
    ("the storm lanterns", "on the pier", "Does anybody keep storm lanterns nowadays?"),
)
NAMES = ("Quillon", "Ravna", "Sorrel", "Tamsin", "Ulrik", "Vesper", "Wystan", "Xanthe")


def test_a_message_that_is_not_embedded_yet_comes_first_by_its_rare_name(
    start_server: Start, connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = start_server(embedder="onnx")
    service = connect(server)
    for texts in HISTORY.values():
        service.conversation_of(" ".join(text for _, text in texts[::2]), texts[1][1])
    for _, _, talk in THINGS:
        service.conversation_of(talk, "I see.")
    until_embedded(service, server)

    def refuse(_: Embedder, pieces: Sequence[Piece]) -> list[EmbeddedPiece]:
        raise CannotEmbed(f"{len(pieces)} pieces wait")

    # a question of one piece is embedded by another function
    monkeypatch.setattr(Embedder, "embed_pieces", refuse)
    fresh = [
        service.conversation_of(f"{name} has {thing} {place}.")
        for name, (thing, place, _) in zip(NAMES, THINGS, strict=True)
    ]
    missed = []
    for name, (thing, _, _), conversation in zip(NAMES, THINGS, fresh, strict=True):
        answer = service.search(f"Where does {name} keep {thing}?")
        assert "vector_messages" in answer.legs_run
        firsts = answer.hits[0].conversation_id, answer.results[0].conversation_id
        if firsts != (conversation, conversation):
            missed.append((name, [hit.snippet for hit in answer.hits[:2]]))
    assert not missed
