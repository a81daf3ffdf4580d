"""The reason why a call met no server: gRPC says `Socket closed`, quotes OpenSSL, or repeats an
old `Connection refused` while it waits for the first word of a server that hangs.

After a connection has failed, another is made with the standard library, which tells apart what
gRPC does not. It sends no token and no request.
"""

import socket
import ssl
import time
from contextlib import suppress

from recollect._shared.endpoint import CA, CLIENT_CERT, CLIENT_KEY, Endpoint, Tls, host_and_port
from recollect.errors import DeadlineExceeded, RecollectError, TlsMismatch, Unavailable

_LONGEST = 2.0
"""Seconds that the probe may take."""
_LEAST = 0.25
"""Seconds without a word after which a server is said to hang."""
_NOT_YET_VALID, _EXPIRED, _SELF_SIGNED = 9, 10, 18
_WRONG_HOST = {62, 64}
"""X509_V_ERR_… of OpenSSL; 62 is a wrong name, 64 a wrong IP address."""


def diagnosed(error: RecollectError, endpoint: Endpoint, seconds: float) -> RecollectError:
    """Return the error, or one in its place that says what is wrong with the connection."""
    if error.code != "UNAVAILABLE" or error.reason is not None:
        return error
    named = host_and_port(endpoint.target)
    if named is None:
        return error
    probe = _Probe(endpoint.target, named, time.monotonic() + min(seconds, _LONGEST))
    try:
        sentence = probe.without_tls() if endpoint.tls is None else probe.with_tls(endpoint.tls)
    except ConnectionRefusedError:
        return Unavailable(
            f"no Recollect server answers on {endpoint.target}: start one with `recollect-server"
            " serve`, or give another address",
            code=error.code,
        )
    except _Silent:
        if seconds < _LEAST:
            return error
        return DeadlineExceeded(
            f"{endpoint.target} takes connections and answers none: the server hangs, or another"
            " program listens there",
            code="DEADLINE_EXCEEDED",
        )
    except (OSError, ValueError):
        return error
    return TlsMismatch(sentence, code=error.code) if sentence else error


def named(error: RecollectError, target: str, seconds: float) -> RecollectError:
    """Return the error, or one in its place that says who did not answer within the time-out."""
    if error.code != "DEADLINE_EXCEEDED" or error.reason is not None:
        return error
    return DeadlineExceeded(f"{target} did not answer within {seconds:g} s", code=error.code)


class _Silent(Exception):
    """A connection was taken, and nothing came over it."""


class _Probe:
    """The connections of one diagnosis. Methods return what is wrong, or an empty text. They raise
    OSError where no connection is made, and _Silent.
    """

    def __init__(self, target: str, named: tuple[str, int], deadline: float) -> None:
        self._target = target
        self._named = named
        self._deadline = deadline

    def without_tls(self) -> str:
        """Return what is wrong where the client speaks plain text."""
        if not self._speaks_tls():
            return ""
        return (
            f"{self._target} speaks TLS and this client does not: name the authority of its"
            f' certificate with ca ({CA}, --ca; "system" for a public one)'
        )

    def with_tls(self, tls: Tls) -> str:
        """Return what is wrong where the client speaks TLS."""
        try:
            connection = self._connected(_strict(tls))
        except ssl.SSLCertVerificationError as error:
            return self._certificate(error, tls)
        except ssl.SSLError as error:
            if self._speaks_tls():
                return (
                    f"{self._target} and this client agree on no way to speak TLS: {error.reason}"
                )
            return (
                f"{self._target} does not speak TLS: leave ca ({CA}, --ca) out, or call the port"
                " that does"
            )
        with connection:
            try:
                is_refused = not connection.recv(1)  # a server of HTTP/2 speaks first
            except TimeoutError:
                raise _Silent from None
            except OSError:  # an alert, or a reset
                is_refused = True
        return self._client_certificate(tls) if is_refused else ""

    def _client_certificate(self, tls: Tls) -> str:
        """Return what is wrong where a server hangs up once it knows the client's certificate."""
        if tls.chain is None:
            return (
                f"{self._target} asks for a certificate of the client: give one with"
                f" cert=(certificate, key) ({CLIENT_CERT} and {CLIENT_KEY})"
            )
        return (
            f"{self._target} refuses the certificate of this client: its authority must be in the"
            " server's --client-ca, and it must not have expired"
        )

    def _certificate(self, error: ssl.SSLCertVerificationError, tls: Tls) -> str:
        """Return what is wrong with the server's certificate."""
        certificate = f"the certificate of {self._target}"
        if error.verify_code in _WRONG_HOST:
            names = self._names(tls)
            return (
                f"{certificate} is for {names or 'other names'} and not for {self._named[0]}: call"
                " the server by a name that its certificate has, or give it one for this name"
            )
        if error.verify_code == _EXPIRED:
            return f"{certificate} has expired: put a new one where the server reads it"
        if error.verify_code == _NOT_YET_VALID:
            return f"{certificate} is not valid yet: see whether this machine's clock is right"
        if error.verify_code == _SELF_SIGNED:
            problem = "is self-signed, and not the one in"
        else:
            problem = (
                f"cannot be trusted ({error.verify_message}): no authority that signed it is in"
            )
        return (
            f"{certificate} {problem} {tls.source}: name the file that has its authority with ca"
            f" ({CA}, --ca)"
        )

    def _speaks_tls(self) -> bool:
        try:
            self._connected(_trusting()).close()
        except ssl.SSLError:
            return False
        return True

    def _names(self, tls: Tls) -> str:
        """Return the names in a certificate that is good but for them."""
        context = _strict(tls)
        context.check_hostname = False
        with suppress(OSError, ValueError, _Silent), self._connected(context) as connection:
            shown = connection.getpeercert() or {}
            names: tuple[tuple[str, str], ...] = shown.get("subjectAltName", ())  # type: ignore[assignment]
            return ", ".join(name for _, name in names)
        return ""

    def _connected(self, context: ssl.SSLContext) -> ssl.SSLSocket:
        """Connect and shake hands. Raises OSError, ssl.SSLError among them, and _Silent."""
        failure = OSError("the name has no address")
        for family, kind, protocol, _, address in socket.getaddrinfo(
            *self._named, type=socket.SOCK_STREAM
        ):
            plain = socket.socket(family, kind, protocol)
            try:
                # Before it is connected: `wrap_socket` of a connection that is reset meanwhile
                # leaves its socket open, or returns without having shaken hands.
                connection = context.wrap_socket(
                    plain, server_hostname=self._named[0], do_handshake_on_connect=False
                )
            except BaseException:
                plain.close()
                raise
            try:
                connection.settimeout(max(self._deadline - time.monotonic(), 0.01))
                connection.connect(address)
                _shake_hands(connection)
            except BaseException as error:
                connection.close()
                if not isinstance(error, OSError) or isinstance(error, ssl.SSLError):
                    raise
                failure = error
            else:
                return connection
        raise failure


def _shake_hands(connection: ssl.SSLSocket) -> None:
    try:
        connection.do_handshake()
    except TimeoutError:
        raise _Silent from None


def _trusting() -> ssl.SSLContext:
    """Return a context that takes any certificate: it is only to see whether TLS is spoken."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    context.set_alpn_protocols(["h2"])
    return context


def _strict(tls: Tls) -> ssl.SSLContext:
    """Return a context that takes what gRPC takes."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    context.set_alpn_protocols(["h2"])
    if tls.roots is None:
        context.load_default_certs()
    else:
        context.load_verify_locations(cadata=tls.roots.decode("ascii", "ignore"))
    return context
