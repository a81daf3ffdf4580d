"""Sign-ins across processes and restarts of `recollect-web`."""

from pathlib import Path

import pytest
from recollect.web.sessions import SessionKey, Sessions


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return where the files of the key `80` are."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    return tmp_path / "recollect"


def started() -> Sessions:
    return Sessions(SessionKey.of("80"))


@pytest.mark.usefixtures("place")
def test_who_signed_out_at_one_of_two_processes_is_signed_out_at_both_for_good() -> None:
    one, two = started(), started()
    cookies = [one.begin("ada"), two.begin("bea")]
    one.end(cookies[0])
    assert two.find(cookies[0], "ada") is None
    two.end(cookies[1])
    later = started()
    assert [later.find(*it) for it in zip(cookies, ("ada", "bea"), strict=True)] == [None, None]
    assert later.find(one.begin("eve"), "eve") is not None


def test_a_list_of_ended_cookies_that_is_damaged_has_everybody_sign_in_once_more(
    place: Path,
) -> None:
    before = started()
    cookie, ended = before.begin("ada"), before.begin("bea")
    before.end(ended)
    (place / "web-80.key.ended").write_bytes(b"\0" * 65)
    after = started()
    assert [after.find(cookie, "ada"), after.find(ended, "bea")] == [None, None]
    assert started().find(after.begin("ada"), "ada") is not None
