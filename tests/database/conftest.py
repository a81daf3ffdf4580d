"""Servers whose logs are in PostgreSQL."""

from tests.external.conftest import meet, watch
from tests.server.conftest import connect
from tests.streaming.conftest import record, subscribe, watched

__all__ = ["connect", "meet", "record", "subscribe", "watch", "watched"]
