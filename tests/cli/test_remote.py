"""How commands reach a running server, and what they say of one that is not theirs."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import grpc

from tests.cli.conftest import run, set_line, talk


def test_a_server_that_is_another_one_is_not_taken_for_none(write_set: Callable[..., Path]) -> None:
    other = grpc.server(ThreadPoolExecutor(1))
    port = other.add_insecure_port("127.0.0.1:0")
    other.start()
    try:
        result = run("import", write_set(set_line("s1", talk(2))), "--target", f"127.0.0.1:{port}")
    finally:
        other.stop(None)
    assert (result.exit_code, result.stdout) == (1, "")
    assert f"127.0.0.1:{port} answers, and refuses" in result.stderr
