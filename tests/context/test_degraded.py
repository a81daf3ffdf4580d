"""BuildContext where something is damaged, gone or asked wrongly: the rest stands, and what is
missing is named.
"""

import shutil

from recollect_server.kernel.domain.conversation import AnchorSet
from recollect_server.kernel.log.lines import Entry, encode

from tests.anchors.conftest import set_anchor
from tests.cases import each
from tests.conftest import MovableClock, RunningServer, Start
from tests.context.conftest import HOT, allocation, built, places, said
from tests.server.conftest import (
    UNKNOWN,
    Connect,
    Service,
    delete_index,
    failure_of,
    kept_by,
    transcript,
)


def test_a_damaged_line_is_named_and_the_rest_stands(
    service: Service, server: RunningServer, start_server: Start, connect: Connect
) -> None:
    conversation = service.conversation_of("one", "two", "three")
    server.stop()
    path = transcript(server, conversation)
    path.write_bytes(path.read_bytes().replace(b'"two"', b'"tvo"'))
    answer = built(connect(start_server()), conversation)
    assert said(answer.hot) == ["one", "three"]
    reason = "damaged and left out: 1 line of the transcript"
    assert {leg.leg: leg.reason for leg in answer.degraded} == {"hot": reason, "warm": reason}


def test_a_transcript_that_cannot_be_read_takes_only_its_own_tiers(
    service: Service, server: RunningServer
) -> None:
    service.conversation_of("The zebra lives in Ghent.")
    set_anchor(service, "name", "Alex")
    here = service.conversation_of(*(f"turn {number}" for number in range(9)))
    path = transcript(server, here)
    shutil.copy(path, path.with_suffix(".copy"))
    path.unlink()
    path.symlink_to(path.with_suffix(".copy"))  # the server follows no links
    answer = built(service, here, "Where does the zebra live?")
    assert {leg.leg for leg in answer.degraded} == {"hot", "warm"}
    assert said(answer.cold) == ["The zebra lives in Ghent."]
    assert [anchor.key for anchor in answer.anchors] == ["name"]
    assert "cannot be read" in allocation(answer, HOT).note


def test_turns_to_include_that_cannot_be_read_are_named_and_the_rest_stands(
    service: Service, server: RunningServer
) -> None:
    there = service.conversation_of("The ibex lives in Bern.")
    here = service.conversation_of("Hello.")
    path = transcript(server, there)
    path.rename(path.with_suffix(".copy"))
    path.symlink_to(path.with_suffix(".copy"))  # the server follows no links
    answer = built(service, here, include=[{"conversation_id": there}])
    assert [leg.leg for leg in answer.degraded] == ["cold"]
    assert (said(answer.cold), said(answer.hot)) == ([], ["Hello."])


def test_a_lost_index_takes_the_cold_tier_and_the_others_stand(
    service: Service, server: RunningServer
) -> None:
    service.conversation_of("The zebra lives in Ghent.")
    set_anchor(service, "name", "Alex")
    here = service.conversation_of(*(f"turn {number}" for number in range(9)))
    for name in ("conversations.db", "conversations.db-wal"):
        with (server.folder / name).open("r+b") as file:
            file.write(b"\0" * 8192)  # in place: SQLite maps the file beside them, and dies if cut
    answer = built(service, here, "Where does the zebra live?")
    assert "cold" in {leg.leg for leg in answer.degraded}
    assert said(answer.warm) + said(answer.hot) == [f"turn {number}" for number in range(9)]
    assert [anchor.key for anchor in answer.anchors] == ["name"]


def test_after_a_rebuild_the_context_is_the_same(
    service: Service,
    server: RunningServer,
    start_server: Start,
    connect: Connect,
    clock: MovableClock,
) -> None:
    for number in range(5):
        service.conversation_of(f"zebra number {number}")
    here = service.conversation_of(*(f"turn {number}" for number in range(60)))
    set_anchor(service, "name", "Alex", (here, 2))
    with transcript(server, here).open("ab") as file:
        file.write(encode(Entry(AnchorSet("city", "Ghent", 0.9, 3, clock.now))))
    server.stop()
    first = start_server()
    before = built(connect(first), here, "Which zebra?")
    first.stop()
    delete_index(first)
    clock.move(31 * 60_000)  # what was recalled is cold again
    after = built(connect(start_server()), here, "Which zebra?")
    clock.move(-31 * 60_000)
    for one, other in (
        (before.hot, after.hot),
        (before.warm, after.warm),
        (before.cold, after.cold),
    ):
        assert places(one) == places(other) != []
    assert [anchor.key for anchor in after.anchors] == ["city", "name"]


@each(
    ("fields", "wrong"),
    [
        ({"conversation_id": ""}, "message"),
        ({"conversation_id": "x"}, "conversation_id"),
        ({"recall": 9}, "recall"),
        ({"profile": -1}, "budget.profile"),
        ({"message": "x" * ((1 << 20) + 1)}, "message"),
        ({"message": "a\0b"}, "message"),
        ({"hot": -1}, "budget.hot"),
        ({"warm": -1}, "budget.warm"),
        ({"cold": -1}, "budget.cold"),
        ({"total": -1}, "budget.total"),
        ({"format": 99}, "format"),
    ],
)
def test_bad_input_is_refused_by_the_fields_name(
    service: Service, server: RunningServer, fields: dict[str, object], wrong: str
) -> None:
    conversation = service.conversation_of("one")
    before = kept_by(service, server)
    failure = failure_of(lambda: built(service, **({"conversation_id": conversation} | fields)))  # type: ignore[arg-type]
    assert (failure.code, failure.reason, failure.fields) == (
        "INVALID_ARGUMENT",
        "INVALID_FIELD",
        (wrong,),
    )
    assert kept_by(service, server) == before
    assert failure_of(lambda: built(service, UNKNOWN)).reason == "CONVERSATION_NOT_FOUND"
