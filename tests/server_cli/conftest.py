"""What the tests of the server's commands share: the command line, and conversations with something
of everything.
"""

import pytest
from click.testing import CliRunner, Result
from recollect_server.cli import commands

from tests.conftest import RunningServer
from tests.server.conftest import Connect, agent, connect, user

__all__ = ["connect"]


@pytest.fixture(autouse=True)
def _logs_apart(no_log: None) -> None:
    """The server of a test runs in this process: its log may not stand between what a command
    prints.
    """


def run(*arguments: object, env: dict[str, str | None] | None = None) -> Result:
    """Runs `recollect-server` with these arguments."""
    return CliRunner().invoke(commands, [str(it) for it in arguments], env=env)


QUERIES = ["zebra", "butter", "北京"]


@pytest.fixture
def filled(server: RunningServer, connect: Connect) -> list[str]:
    """Conversations with something of everything, on `server`."""
    service = connect(server)
    made = [
        service.create("web", model="m", request_id=f"create {n}".replace(" ", "-")).id
        for n in range(5)
    ]
    for number, conversation_id in enumerate(made):
        for turn in range(number + 1):
            service.append(
                conversation_id,
                user(f"zebra {turn} 北京", sender="ana"),
                agent("butter"),
                request_id=f"a-{number}-{turn}",
            )
    service.rename(made[0], "Named")
    service.abbreviate(made[1], "notes", ["tea"])
    service.compress(made[4], 2, "summary")
    service.delete(made[2])
    return [name for name in made if name != made[2]]


def on(server: RunningServer, command: str, *arguments: object) -> Result:
    return run(command, *arguments, "--data-dir", server.data_dir)
