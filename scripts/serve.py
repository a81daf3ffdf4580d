"""Start the server, and the page beside it: `make serve`.

This process becomes the server, so that signals, exit status and output are the server's own. The
page is a child of it that ends when the server does, however that ends: it reads a pipe whose other
end the server holds.
"""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import yaml

BIN = Path(sys.executable).parent


def main() -> None:
    """Start the page if it can reach the server, and become the server."""
    flags = sys.argv[1:]
    server = str(BIN / "recollect-server")
    address = page_target(settings(server, flags))
    if address:
        read, write = os.pipe()
        command = [str(BIN / "recollect-web"), "--address", address, "--until-input-ends"]
        subprocess.Popen(command, stdin=read)
        os.close(read)
        os.set_inheritable(write, True)  # the server's, until it ends
    os.execv(server, [server, "serve", *flags])  # noqa: S606 - it is the point


def settings(server: str, flags: list[str]) -> dict[str, Any]:
    """Return the settings that the server will have; nothing if they are wrong, which it says
    itself.
    """
    result = subprocess.run([server, "config", *flags], capture_output=True, text=True, check=False)
    try:
        values = yaml.safe_load(result.stdout) if result.returncode == 0 else None
    except yaml.YAMLError:
        values = None
    return values if isinstance(values, dict) else {}


def page_target(values: dict[str, Any]) -> str:
    """Return the address by which the page reaches the server; empty if it needs more:
    certificates, or a port that is not known yet.
    """
    addresses = [it.strip() for it in str(values.get("listen", "")).split(",")]
    if values.get("tls_cert"):
        return next((it for it in addresses if it.startswith("unix:")), "")
    local = ("127.", "localhost:", "[::1]:", "unix:")
    return next((it for it in addresses if it.startswith(local) and not it.endswith(":0")), "")


if __name__ == "__main__":
    main()
