"""Recency is judged by the server's clock: neither a message that is dated ahead nor a clock that
jumped stays the newest.
"""

from tests.conftest import MovableClock, RunningServer, Start
from tests.server.conftest import Connect, Service, agent, delete_index, moment, user

HOUR = 3_600_000
YEARS = 175 * 365 * 24 * HOUR


def test_a_message_dated_ahead_is_as_recent_as_when_it_arrived(
    service: Service,
    server: RunningServer,
    start_server: Start,
    connect: Connect,
    clock: MovableClock,
) -> None:
    ahead, other = service.create().id, service.create().id
    arrived = clock.now
    dated = moment(arrived + 23 * HOUR)
    assert (
        service.append(ahead, user("from tomorrow", timestamp=dated)).messages[0].timestamp == dated
    )
    assert service.get(ahead).update_time == moment(arrived)
    clock.move(HOUR)
    service.turn(other, "an hour later")
    assert [it.id for it in service.listed().conversations] == [other, ahead]
    assert service.load(channel="web").conversation.id == other
    assert service.create(create_time=moment(clock.now + 23 * HOUR)).update_time == moment(
        clock.now
    )
    listed = service.listed()
    server.stop()
    delete_index(server)
    assert connect(start_server()).listed() == listed


def test_after_a_clock_that_jumped_ahead_and_back_the_next_message_is_the_newest_by_the_clock(
    service: Service,
    server: RunningServer,
    start_server: Start,
    connect: Connect,
    clock: MovableClock,
) -> None:
    before = clock.now
    name = service.conversation_of("before")
    clock.now = before + YEARS
    service.turn(name, "in 2201")
    assert service.get(name).update_time == moment(before + YEARS)
    clock.now = before + HOUR
    service.append(name, user("back again"), agent("Noted."))
    assert service.get(name).update_time == moment(before + HOUR)
    clock.move(HOUR)
    service.append(name, user("said earlier", timestamp=moment(before)))
    assert service.get(name).update_time == moment(before + HOUR)
    listed = service.listed()
    server.stop()
    delete_index(server)
    assert connect(start_server()).listed() == listed


def test_an_import_keeps_the_times_of_its_messages(service: Service, clock: MovableClock) -> None:
    name = service.create(create_time=moment(clock.now - YEARS // 10)).id
    service.append(name, user("long ago", timestamp=moment(clock.now - YEARS // 10 + 1)))
    assert service.get(name).update_time == moment(clock.now - YEARS // 10 + 1)
