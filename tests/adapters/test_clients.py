"""The kind of client that an adapter takes: the other one is refused where it is given."""

from collections.abc import Callable

import pytest
from recollect import AsyncClient, Client
from recollect.adapters.langgraph import (
    RecallStore,
    RecollectMemory,
    RecollectSaver,
    RecollectStore,
)
from recollect.adapters.openai_agents import RecollectSession

from tests.conftest import RunningServer


@pytest.mark.parametrize("adapter", [RecollectSaver, RecollectMemory, RecollectStore, RecallStore])
async def test_an_adapter_that_calls_in_threads_takes_no_asynchronous_client(
    adapter: Callable[..., object], server: RunningServer
) -> None:
    async with AsyncClient(server.target) as client:
        with pytest.raises(TypeError, match=r"takes a recollect\.Client, not an AsyncClient"):
            adapter(client)


def test_a_session_of_an_event_loop_takes_no_client_that_blocks(client: Client) -> None:
    with pytest.raises(TypeError, match=r"takes a recollect\.AsyncClient, not a Client"):
        RecollectSession("alex", client)  # type: ignore[arg-type]
