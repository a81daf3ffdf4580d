"""The kind of client that an adapter takes.

A toolkit whose methods are all asynchronous calls an `AsyncClient`; every other one is called in
threads too, and a `Client` serves them. The wrong one would fail at its first call, far from where
it was given.
"""

from recollect import AsyncClient, Client


def blocking(client: Client) -> Client:
    """Return the client. Raises TypeError if it is asynchronous."""
    if isinstance(client, AsyncClient):
        raise TypeError(
            "the adapter takes a recollect.Client, not an AsyncClient: its asynchronous methods"
            " call it in threads of their own"
        )
    return client


def asynchronous(client: AsyncClient) -> AsyncClient:
    """Return the client. Raises TypeError if it blocks."""
    if isinstance(client, Client):
        raise TypeError(
            "the adapter takes a recollect.AsyncClient, not a Client: it runs in an event loop"
        )
    return client
