"""Size of the hostile suite: short within `make test`, long with `make hostile`."""

import os

import pytest

from tests.server.conftest import connect, service

__all__ = ["connect", "scale", "service"]


@pytest.fixture(scope="session")
def scale() -> int:
    """Return the factor by which a test multiplies its rounds, callers or sizes: 1 in `make test`,
    20 in `make hostile`.
    """
    return int(os.environ.get("HOSTILE_SCALE", "1"))
