"""Settings that an administrator changes: in the file, and in the running server."""

import errno
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from recollect import Client, InvalidArgument, Message, Setting, Unavailable
from recollect_server.run import app
from recollect_server.run.settings import Settings, yaml_file

from tests.cases import each
from tests.conftest import RunningServer, Start
from tests.faults.conftest import Disk, disk

__all__ = ["disk"]

WRITTEN = """\
# Kept by Ada.
profile_tokens: 5   # more only confuse it

models: [opus, "sonnet"]
idle_timeout: 20m
"""


@contextmanager
def administrator(server: RunningServer) -> Iterator[Client]:
    with Client(server.target, retry=None) as client:
        yield client


def listed(client: Client, key: str) -> Setting:
    return next(it for it in client.admin.list_settings().settings if it.key == key)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Write a file of settings as a person does."""
    path = tmp_path / "its.yaml"
    path.write_text(WRITTEN)
    path.chmod(0o640)
    return path


def test_a_set_value_is_in_the_file_with_its_comments_and_in_force(
    start_server: Start, file: Path
) -> None:
    with administrator(start_server(config=file)) as client:
        changed = client.admin.set_setting("profile_tokens", "7")
        assert (changed.setting.value, changed.setting.source, changed.restart_needed) == (
            "7",
            "file",
            False,
        )
        client.admin.set_setting("threads", "16")
        client.admin.set_setting("models", "haiku, opus")
        client.admin.set_setting("acknowledgement", "It's here: thank you #1")
        client.admin.set_setting("compaction", "true")
        client.admin.set_setting("idle_timeout", reset=True)
    assert file.read_text() == (
        "# Kept by Ada.\n"
        "profile_tokens: 7   # more only confuse it\n"
        "\n"
        "models: haiku, opus\n"
        "threads: 16\n"
        "acknowledgement: 'It''s here: thank you #1'\n"
        "compaction: true\n"
    )
    assert file.stat().st_mode & 0o777 == 0o640
    assert [it.name for it in file.parent.glob("its.yaml*")] == ["its.yaml"]


def test_what_needs_a_restart_is_told_until_the_restart(start_server: Start, file: Path) -> None:
    server = start_server(config=file)
    with administrator(server) as client:
        changed = client.admin.set_setting("threads", "16")
        assert changed.restart_needed
        setting = listed(client, "threads")
        assert (setting.value, setting.source) == ("32", "default")
        assert (setting.pending, setting.pending_value) == (True, "16")
    server.stop()
    with administrator(start_server(config=file)) as client:
        setting = listed(client, "threads")
        assert (setting.value, setting.source, setting.pending) == ("16", "file", False)


def test_a_server_without_a_file_keeps_its_settings_in_the_data_folder(
    start_server: Start, tmp_path: Path
) -> None:
    server = start_server()
    with administrator(server) as client:
        client.admin.set_setting("slow_call", "45m")
        assert client.admin.list_settings().file == str(tmp_path / "data" / "recollect.yaml")
    server.stop()
    with administrator(start_server()) as client:
        setting = listed(client, "slow_call")
        assert (setting.value, setting.source) == ("45m", "file")
    assert (tmp_path / "data" / "recollect.yaml").stat().st_mode & 0o777 == 0o600


REFUSED: list[tuple[str, str, str, str]] = [
    ("slow_cal", "1m", "key", "do you mean slow_call?"),
    ("slow_call", "soon", "value", "is not a duration"),
    ("profile_tokens", "100001", "value", "less than or equal to 100000"),
    ("profile_tokens", "", "value", "whole number"),
    ("compaction_messages", "20", "value", "compaction_keep must be less than compaction_messages"),
    ("log_level", "loud", "value", "'debug', 'info', 'warning' or 'error'"),
    ("data_dir", "/elsewhere", "key", "where data lies"),
    ("listen", "0.0.0.0:1", "key", "who reaches the server"),
    ("abbreviation_url", "http://collector.example.org", "key", "key are sent"),
    ("slow_call", "1m\nthreads: 1", "value", "one line"),
    ("acknowledgement", "\xa0thanks", "value", "without space around it"),
    ("profile_tokens", "9" * 10_000, "value", "exceeded maximum size"),
    ("retention", "🦓" * 5_000, "value", "does not begin with `delete`"),
]


@each(("key", "value", "field", "words"), REFUSED)
def test_a_wrong_change_is_refused_by_its_field_and_changes_nothing(
    key: str, value: str, field: str, words: str, shared: tuple[Client, Path]
) -> None:
    client, file = shared
    before = client.admin.list_settings()
    with pytest.raises(InvalidArgument) as refused:
        client.admin.set_setting(key, value)
    assert {it.field for it in refused.value.violations} == {field}
    assert words in str(refused.value)
    assert file.read_text() == WRITTEN
    assert client.admin.list_settings() == before


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Client, Path]]:
    """Yield an administrator of one server for all that is refused, and its file."""
    folder = tmp_path_factory.mktemp("shared")
    file = folder / "its.yaml"
    file.write_text(WRITTEN)
    values = {"listen": "127.0.0.1:0", "data_dir": folder / "data", "shutdown_grace": "2s"}
    server = app.start(Settings.load(file, values))
    with Client(server.address, retry=None) as client:
        yield client, file
    server.stop()


def test_what_comes_from_the_environment_or_a_flag_is_refused_by_its_name(
    start_server: Start, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RECOLLECT_PROFILE_TOKENS", "9")
    with administrator(start_server(config=file, slow_call="1h")) as client:
        with pytest.raises(InvalidArgument, match="RECOLLECT_PROFILE_TOKENS in the environment"):
            client.admin.set_setting("profile_tokens", "7")
        with pytest.raises(InvalidArgument, match="the flag --slow-call"):
            client.admin.set_setting("slow_call", "7m")
    assert file.read_text() == WRITTEN


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{profile_tokens: 5}\n", "not one name and its value in each line"),
        ("profile_tokens: &n 5\nmax_working_turns: *n\n", "edit it by hand"),
        ("profile_tokens: 5\nslow_call: soon\n", "correct them first: slow_call"),
    ],
)
def test_a_file_that_cannot_be_changed_safely_stays_as_it_is(
    text: str, words: str, start_server: Start, file: Path
) -> None:
    with administrator(start_server(config=file)) as client:
        file.write_text(text)
        with pytest.raises(InvalidArgument, match=words):
            client.admin.set_setting("profile_tokens", "7")
        assert listed(client, "profile_tokens").value == "5"
    assert file.read_text() == text


@pytest.mark.parametrize(
    ("text", "key", "words"),
    [
        (  # the edit would be of the place that the alias is of
            "profile_tokens: &n 5\nslow_call: 1m\nmax_working_turns: *n\n",
            "max_working_turns",
            "max_working_turns has its value from another part of it",
        ),
        ("<<: {profile_tokens: 5}\n", "profile_tokens", "from another part of it: edit it by hand"),
        ("profile_tokens: 5\rslow_call: 1m\r", "profile_tokens", "slow_call would change too"),
    ],
)
def test_a_reset_that_a_file_does_not_allow_leaves_it_as_it_is(
    text: str, key: str, words: str, shared: tuple[Client, Path]
) -> None:
    client, file = shared
    file.write_bytes(text.encode())
    try:
        with pytest.raises(InvalidArgument, match=words):
            client.admin.set_setting(key, reset=True)
        assert file.read_bytes() == text.encode()
    finally:
        file.write_text(WRITTEN)


def test_a_file_that_cannot_be_read_any_more_is_no_fault_of_the_caller(
    shared: tuple[Client, Path],
) -> None:
    client, file = shared
    file.unlink()
    file.symlink_to("/proc/self/mem")  # refuses every read, of root too
    try:
        with pytest.raises(Unavailable, match=r"cannot be read \(Input/output error\): let"):
            client.admin.set_setting("profile_tokens", "7")
        listed = client.admin.list_settings()
        assert "would not be read at the next start" in listed.locked
        assert listed.locked.count(str(file)) == 1
    finally:
        file.unlink()
        file.write_text(WRITTEN)


def test_a_full_disk_changes_nothing(shared: tuple[Client, Path], disk: Disk) -> None:
    client, file = shared
    before = client.admin.list_settings()
    disk.suffix = ".yaml.new"
    disk.refuse("fsync", error=errno.ENOSPC)
    with pytest.raises(Unavailable, match="cannot be written: No space left on device"):
        client.admin.set_setting("profile_tokens", "7")
    assert disk.tried
    assert file.read_text() == WRITTEN
    assert [it.name for it in file.parent.glob("its.yaml*")] == ["its.yaml"]
    assert client.admin.list_settings() == before


def test_a_file_that_the_disk_takes_only_a_part_of_is_refused(tmp_path: Path) -> None:
    most = 1 << 20  # more than whatever else this process writes meanwhile
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (most, before[1]))
    try:
        with pytest.raises(OSError, match="File too large"):
            yaml_file.write_beside(tmp_path / "its.yaml", "#" * most + "\nprofile_tokens: 15\n")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert not list(tmp_path.iterdir())


def test_a_folder_that_refuses_the_file_changes_nothing(start_server: Start, file: Path) -> None:
    with administrator(start_server(config=file)) as client:
        (file.parent / "its.yaml.new").mkdir()  # root may write into any folder
        with pytest.raises(Unavailable, match="cannot be written"):
            client.admin.set_setting("profile_tokens", "7")
        assert listed(client, "profile_tokens").value == "5"
    assert file.read_text() == WRITTEN


def test_a_change_is_audited_by_its_name_without_its_value(
    start_server: Start, tmp_path: Path
) -> None:
    with administrator(start_server()) as client:
        client.admin.set_setting("acknowledgement", "swordfish")
    audit = (tmp_path / "data" / "audit.jsonl").read_text()
    assert '"method":"AdminService.SetSetting"' in audit.replace('": "', '":"')
    assert "acknowledgement" in audit
    assert "swordfish" not in audit


def test_a_limit_counts_at_once(start_server: Start) -> None:
    with administrator(start_server()) as client:
        client.conversations.create("web")
        client.admin.set_setting("space_conversations", "1")
        with pytest.raises(Exception, match="reached its limit conversations of 1"):
            client.conversations.create("web")
        client.admin.set_setting("space_conversations", reset=True)
        client.conversations.create("web")


def test_the_turns_of_a_load_count_at_once(start_server: Start) -> None:
    with administrator(start_server()) as client:
        conversation = client.conversations.create("web")
        for number in range(3):
            messages = [Message.user(f"{number}?"), Message.assistant(f"{number}.")]
            client.conversations.append_turn(conversation.id, messages)
        assert len(client.conversations.load(conversation.id).messages) == 6
        client.admin.set_setting("max_working_turns", "1")
        assert len(client.conversations.load(conversation.id).messages) == 2


def test_many_wrong_fields_reach_the_caller_with_how_many_more(
    shared: tuple[Client, Path],
) -> None:
    client, _ = shared
    conversation = client.conversations.create("web")
    wrong = [Message.user("\0")] * 500
    with pytest.raises(InvalidArgument, match=r"messages\[0\].*; and \d+ more"):
        client.conversations.append_turn(conversation.id, wrong)
