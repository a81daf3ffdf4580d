"""Tables of cases: each case is tried, and each that fails is named."""

import pytest

from tests.cases import each


def test_every_case_that_fails_is_named_and_none_hides_another() -> None:
    tried = []

    @each(("word", "number"), [("zebra", 1), ("okapi", 2), ("quagga", 3), ("walrus", 4)])
    def run(server: str, word: str, number: int) -> None:
        tried.append((server, word))
        assert number != 2
        if number == 3:
            with pytest.raises(KeyError):
                pass

    with pytest.raises(BaseExceptionGroup) as raised:
        run(server="shared")
    assert [word for _, word in tried] == ["zebra", "okapi", "quagga", "walrus"]
    assert {server for server, _ in tried} == {"shared"}
    assert str(raised.value).startswith(
        "2 of 4 fail: case 2 (word='okapi', number=2); case 3 (word='quagga', number=3)"
    )


def test_a_time_limit_ends_the_whole_table() -> None:
    tried = []

    @each("number", [1, 2])
    def run(number: int) -> None:
        tried.append(number)
        pytest.fail("Timeout (>120.0s) from pytest-timeout.")

    with pytest.raises(pytest.fail.Exception):
        run()
    assert tried == [1]
