"""The text of a token: its checksum, its pattern, and where it never stands."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from recollect_server.access import token

from tests.credentials.conftest import grant

DIGITS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"


def made() -> tuple[str, str, str]:
    token_id, secret = token.new_id(), token.new_secret()
    return token.token_text(token_id, secret), token_id, secret


def test_a_token_is_read_as_it_was_made_and_scanners_find_it() -> None:
    text, token_id, secret = made()
    assert token.parse(text) == (token_id, secret)
    assert re.findall(token.PATTERN, f'TOKEN="{text}"') == [text]


@given(st.integers(17, 65), st.sampled_from(DIGITS))
def test_a_mistyped_character_is_told_from_a_wrong_token(place: int, typed: str) -> None:
    text, *_ = made()
    mistyped = text[:place] + typed + text[place + 1 :]
    if mistyped != text:
        with pytest.raises(ValueError, match="mistyped"):
            token.parse(mistyped)


@given(st.integers(17, 64))
def test_two_characters_in_the_wrong_order_are_told_from_a_wrong_token(place: int) -> None:
    text, *_ = made()
    swapped = text[:place] + text[place + 1] + text[place] + text[place + 2 :]
    if swapped != text:
        with pytest.raises(ValueError, match="mistyped"):
            token.parse(swapped)


@given(st.text("rcl_09azAZé\x00 ") | st.text("09azAZ").map(lambda it: f"rcl_{it[:12]}_{it[12:]}"))
def test_whatever_is_no_token_is_refused_without_being_repeated(text: str) -> None:
    with pytest.raises(ValueError) as raised:  # noqa: PT011 - the text is looked at below
        token.parse(text)
    assert len(text) < 8 or text not in str(raised.value)


def test_secrets_are_256_random_bits_in_43_characters() -> None:
    drawn = {token.new_secret() for _ in range(1000)}
    assert len(drawn) == 1000
    assert {len(secret) for secret in drawn} == {43}
    assert 62**43 > 2**256


def test_a_token_keeps_no_secret_and_shows_no_hash() -> None:
    _, token_id, secret = made()
    one = token.Token(token_id, grant(), 0, token.digest_of(secret))
    assert one.fits(secret)
    assert not one.fits(token.new_secret())
    assert secret not in repr(one)
    assert "digest" not in repr(one)
