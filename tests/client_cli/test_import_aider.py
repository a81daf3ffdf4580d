"""`recollect import` of histories that aider wrote (`products/README.md`), and of others."""

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest
from recollect import Client, Message, Role
from recollect.imports import finding
from recollect.imports.forms import Options
from recollect.imports.plans import Batch, Plan
from recollect.imports.reading import MAX_ITEM
from recollect.imports.talks import local_moment

from tests.client_cli.conftest import BringIn, Counts, Run
from tests.client_cli.test_import_agents import loaded
from tests.client_cli.test_import_products import only, written

PRODUCTS = Path(__file__).parent / "products"
NEW, OLD = ((PRODUCTS / f"aider-{it}.md").read_text() for it in ("0.86.2", "0.16.3"))
HEADING = "\n# aider chat started at 2024-05-01 10:00:00\n\n> Aider v0.86.2  \n"


def history(folder: Path, text: str) -> Path:
    return written(folder / ".aider.chat.history.md", text)


def shown(messages: list[Message]) -> list[tuple[str, str]]:
    """Return what was said by whom, without calls."""
    return [(it.role.value, it.content) for it in messages if not it.tool_calls]


def said_in(path: Path, text: str) -> list[tuple[str, str]]:
    """Return what was said by whom in a history of one session."""
    [source] = finding.find(history(path, text))
    [plan] = (it for it in source.read(Options()) if isinstance(it, Plan))
    batches = (step for step in plan.steps if isinstance(step, Batch))
    return shown([it.message for batch in batches for it in batch.messages])


def test_what_aider_wrote_comes_with_answers_thinking_and_outputs(
    run: Run, client: Client, tmp_path: Path
) -> None:
    ran = run("import", history(tmp_path, NEW))
    counts = [ran.lines[0][it] for it in ("conversationsNew", "messagesNew", "hidden", "leftOut")]
    assert (ran.code, counts) == (6, [2, 27, 3, 2])
    assert "a session has notices alone: Aider v0.86.2\n" in ran.err
    assert "2 times: what the product hides: line 11: Aider v0.86.2 Main model: gpt-4o" in ran.err
    red, tower = client.conversations.list()
    messages = list(client.conversations.load(tower.id).messages)
    question, answer, call, output = messages[:4]
    assert question.content == "Make the tower twice as tall.\n\n#### Please\nKeep the name."
    assert question.timestamp == datetime(2024, 5, 1, 10, 1, tzinfo=UTC)
    parts = (
        "> A tower is as tall",
        "#### The change",
        "> quoted in a fence\n#### and a heading\n```",
    )
    assert all(it in answer.content for it in parts)
    assert answer.metadata["model"] == "gpt-4o"
    assert (call.tool_calls[0].name, output.tool_call_id) == ("aider", call.tool_calls[0].id)
    assert output.content.splitlines()[1:] == [
        "Applied edit to tower.py",
        "Commit 2c23636 feat: make the tower taller",
    ]
    commands = [it.content for it in messages if it.metadata.get("boilerplate")]
    assert commands == ["/ask How tall is it now?", "/git log --format=%s", "/clear"]
    assert ("tool", "feat: make the tower taller\nfeat: begin") in shown(messages)
    assert messages[-3].content == "The file does not say."
    assert messages[-3].thinking_text == "The file has one number."
    users = [it for it in client.conversations.load(red.id).messages if it.role is Role.USER]
    assert [bool(it.metadata.get("boilerplate")) for it in users] == [False, True]


def test_what_an_early_version_wrote_comes_with_outputs_of_several_lines(
    run: Run, client: Client, tmp_path: Path
) -> None:
    assert run("import", history(tmp_path, OLD)).lines[0]["hidden"] == 1
    messages = only(client)
    assert shown(messages) == [
        ("user", "Rename the tower.\nCall it spire."),
        ("assistant", "I rename it."),
        (
            "tool",
            "Applied edit to tower.py\nMalformed ORIGINAL/UPDATE blocks, retrying...\n"
            "The UPDATE block lacks its end.",
        ),
        ("assistant", "Now it is renamed."),
    ]
    assert messages[1].metadata["model"] == "gpt-4-0613"


@pytest.mark.parametrize(
    "changed",
    [
        lambda text: text.replace("\n", "\r\n"),
        lambda text: text.replace("  \n", "\n"),
        lambda text: text.rstrip(),
    ],
    ids=["line ends", "no spaces", "no end"],
)
def test_a_history_that_an_editor_changed_says_the_same(
    tmp_path: Path, changed: Callable[[str], str]
) -> None:
    text = "\n#### Hi  \n#### there  \n\nYes?\n\n> an output\n> goes on  \n\n#### Bye  \n"
    assert said_in(tmp_path, changed(HEADING + text)) == [
        ("user", "Hi\nthere"),
        ("assistant", "Yes?"),
        ("tool", "an output\ngoes on"),
        ("user", "Bye"),
    ]


def test_marks_within_an_answer_are_its_own(tmp_path: Path) -> None:
    answer = "One\n> two  \n\n> three\nfour\n\n#### Five\n\n```\n#### six  \n```"
    text = f"{HEADING}\n#### Hi  \n\n{answer}\n\n> Tokens: 1 sent.\nCost: $1.  \n"
    assert said_in(tmp_path, text) == [
        ("user", "Hi"),
        ("assistant", answer),
        ("tool", "Tokens: 1 sent.\nCost: $1."),
    ]


def test_an_answer_to_a_question_of_aider_is_none_of_the_users_own_words(
    bring_in: BringIn, client: Client, tmp_path: Path
) -> None:
    question = "Add a.py to the chat? (Y)es/(N)o/(A)ll/(S)kip all [Yes]: all"
    bring_in(
        history(tmp_path, f"{HEADING}\n#### Look at it  \n\n#### {question}  \n> {question}  \n")
    )
    assert [it.metadata.get("boilerplate") for it in only(client) if it.role is Role.USER] == [
        None,
        True,
    ]


def test_thinking_that_was_broken_off_stays_thinking(
    bring_in: BringIn, client: Client, tmp_path: Path
) -> None:
    tag = "thinking-content-7bbeb8e1441453ad999a0bbba8a46d4b"
    bring_in(
        history(tmp_path, f"{HEADING}\n#### Hi  \n\n<{tag}>\n\nWho is\n\n> ^C again to exit  \n")
    )
    _, answer, _, notice = only(client)
    assert (answer.content, answer.thinking_text) == ("", "Who is")
    assert notice.content == "^C again to exit"


def test_a_history_that_grew_adds_what_is_new_and_equal_sessions_stay_apart(
    bring_in: BringIn, tmp_path: Path
) -> None:
    session = f"{HEADING}\n#### Hi  \n\nHello.\n\n"
    path = history(tmp_path, session * 2)
    assert bring_in(path) == Counts(2, 0, 4, 0, 1)
    more = f"{session * 2}> Tokens: 1 sent.  \n\n#### Bye  \n{session}"
    moved = written(tmp_path / "copy.md", more)
    assert bring_in(moved) == Counts(1, 2, 5, 4, 1)
    assert bring_in(moved) == Counts(0, 3, 0, 9, 1)


def test_times_of_a_heading_are_those_of_this_machine_and_one_that_cannot_be_read_is_named(
    run: Run, client: Client, tmp_path: Path
) -> None:
    odd = HEADING.replace("2024-05-01", "2024-13-01")
    ran = run("import", history(tmp_path, f"{odd}\n#### Hi  \n"))
    assert (ran.code, ran.lines[0]["notes"]) == (6, 1)
    assert "a conversation has no time: it is dated with the import: line 2" in ran.err
    assert local_moment("2024-05-01 10:00:00") == datetime(2024, 5, 1, 10).astimezone()


def test_a_history_without_its_beginning_is_read_where_the_format_is_named(
    run: Run, client: Client, tmp_path: Path
) -> None:
    path = tmp_path / "history.md"
    path.write_bytes(b"#### Hi \xe9  \n\nHello.\n")
    assert "neither JSON nor any other text" in run("import", path).err
    ran = run("import", path, "--format", "aider")
    assert "1 byte is no UTF-8" in ran.err
    assert shown(loaded(client, channel="aider")) == [("user", "Hi é"), ("assistant", "Hello.")]


def test_a_history_of_prompts_is_left_out_with_its_reason(run: Run, tmp_path: Path) -> None:
    written(tmp_path / ".aider.input.history", "\n# 2024-05-01 10:00:00.123456\n+Hi\n+you\n")
    history(tmp_path, f"{HEADING}\n#### Hi  \n")
    ran = run("import", tmp_path, "--dry-run")
    assert (ran.code, ran.lines[-1]["conversationsNew"]) == (6, 1)
    assert "it has prompts without answers: aider keeps both in .aider.chat.history.md" in ran.err


def test_a_session_beyond_all_bounds_is_named_and_the_others_come(run: Run, tmp_path: Path) -> None:
    session = f"{HEADING}\n#### Hi  \n"
    path = history(tmp_path, session)
    with path.open("a") as file:
        for _ in range(MAX_ITEM >> 20):
            file.write("x" * (1 << 20) + "\n")
        file.write(session.replace("10:00", "11:00"))
    ran = run("import", path, "--dry-run")
    assert (ran.code, ran.lines[-1]["conversationsNew"]) == (6, 1)
    assert f"left out {path}:2: it has more than 64 million characters" in ran.err
