"""A server for all tests of a module, and the usual one for each test."""

from collections.abc import Iterator

import pytest
from recollect_server.run import app
from recollect_server.run.settings import Settings

from tests.conftest import LOOPBACK
from tests.server.conftest import Service, connect, service

__all__ = ["connect", "service"]


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """Return the service of a server that the tests of a module share."""
    settings = Settings.load(
        None,
        {
            "listen": f"{LOOPBACK}:0",
            "data_dir": tmp_path_factory.mktemp("data"),
            "embedder": "off",
            "shutdown_grace": "2s",
        },
    )
    server = app.start(settings)
    one = Service(server.address)
    yield one
    one.channel.close()
    server.stop()
