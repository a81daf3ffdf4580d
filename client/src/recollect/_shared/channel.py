"""How the client connects: target, options, and the token that goes with every call."""

from recollect._shared.fill import invalid

ADDRESS = "RECOLLECT_ADDRESS"
"""What the commands read in the environment: the server's address."""
DEFAULT_TARGET = "127.0.0.1:50051"
DEFAULT_TIMEOUT = 30.0

CHANNEL_OPTIONS: tuple[tuple[str, int], ...] = (
    # The client repeats calls itself: it knows which are safe, gRPC does not.
    ("grpc.enable_retries", 0),
    ("grpc.max_receive_message_length", 64 * 1024 * 1024),
    # Notices a server that went away without a word, only while a call waits for it.
    ("grpc.keepalive_time_ms", 60_000),
    ("grpc.keepalive_timeout_ms", 20_000),
    ("grpc.keepalive_permit_without_calls", 0),
    # A server that restarts is back within a second; gRPC's own pauses (1 s, growing to 2 min) would hide it.
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.min_reconnect_backoff_ms", 5_000),
    ("grpc.max_reconnect_backoff_ms", 5_000),
    # Recollect listens on this machine: a proxy from the environment leads nowhere.
    ("grpc.enable_http_proxy", 0),
)


def checked_target(target: str) -> str:
    """The target, if it is `HOST:PORT`, `unix:PATH` or another name that gRPC knows."""
    if not target or target != target.strip():
        raise invalid("target", f"is an address such as {DEFAULT_TARGET} or unix:PATH, not {target!r}")
    if target.startswith(("http:", "https:", "grpc:", "grpcs:", "tcp:")):
        raise invalid("target", f"is an address without a scheme, such as {DEFAULT_TARGET}, not {target!r}")
    return target


def call_metadata(token: str | None) -> tuple[tuple[str, str], ...]:
    """The metadata of every call. The token never appears in an error's text."""
    if token is None:
        return ()
    if not token or not all("!" <= character <= "~" for character in token):
        raise invalid("token", "is printable ASCII without spaces, and not empty")
    return (("authorization", f"Bearer {token}"),)
