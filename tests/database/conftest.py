"""Servers whose logs are in PostgreSQL."""

from tests.server.conftest import connect

__all__ = ["connect"]
