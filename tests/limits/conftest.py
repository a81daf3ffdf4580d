"""What the tests of limits and of the audit share."""

from tests.server.conftest import Connect, connect, service

__all__ = ["Connect", "connect", "service"]
