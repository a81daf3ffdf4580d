"""The command line, and conversations with every kind of content, for the tests of the server's
commands.
"""

import resource
from collections.abc import Iterator, Mapping

import pytest
from click.testing import CliRunner, Result
from recollect_server.run.commands import commands

from tests.conftest import RunningServer
from tests.server.conftest import Connect, agent, connect, user

__all__ = ["connect"]


@pytest.fixture(autouse=True)
def _logs_apart(no_log: None) -> None:
    """Discard the log of the server, which runs in this process, so that it does not mix with a
    command's output.
    """


def run(*arguments: object, env: Mapping[str, str | None] | None = None) -> Result:
    """Run `recollect-server` with these arguments."""
    return CliRunner().invoke(commands, [str(it) for it in arguments], env=env)


QUERIES = ["zebra", "butter", "北京"]


@pytest.fixture
def filled(server: RunningServer, connect: Connect) -> list[str]:
    """Create conversations with every kind of content on `server`."""
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


@pytest.fixture
def small_disk() -> Iterator[None]:
    """Let no file become longer than 2 MiB: the system refuses it as a full disk does."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (2 << 20, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, before)
