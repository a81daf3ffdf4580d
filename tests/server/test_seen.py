"""The filter of request ids that were seen."""

from recollect_server.kernel.index.requests import SeenNames


def test_a_request_id_that_was_added_is_never_missed() -> None:
    names = SeenNames(1000)
    ids = [f"request-{number}" for number in range(50_000)]
    for request_id in ids:
        names.add(request_id)
    assert all(request_id in names for request_id in ids)


def test_a_new_request_id_is_rarely_taken_for_one_that_was_seen() -> None:
    names = SeenNames(1000)
    for number in range(100_000):
        names.add(f"request-{number}")
    assert sum(f"other-{number}" in names for number in range(10_000)) < 20
