"""Install packages with pip, and say what is fetched, how much, and how long it took: `make serve`.

pip alone is silent for minutes, or says five lines about each of sixty packages.
"""

import re
import subprocess
import sys
import time
from collections.abc import Sequence

_FETCHED = re.compile(
    r"\s*(?:Downloading|Using cached) (?:\S*/)?([^\s/-]+)-([^\s/-]+?)(?:-\S+\.whl|\.tar\.gz) \((\S+) (\w+)\)"
)
_UNITS = {"bytes": 1e-6, "kB": 1e-3, "MB": 1.0, "GB": 1e3}


def fetched(line: str) -> tuple[str, float] | None:
    """Return what a line of pip says was fetched, for people, and its size in MB; None for another
    line.
    """
    if (match := _FETCHED.match(line)) is None:
        return None
    name, version, size, unit = match.groups()
    return f"{name} {version}: {size} {unit}", float(size) * _UNITS[unit]


def main(arguments: Sequence[str]) -> int:
    """Run `pip install` with the arguments, and return its exit status."""
    began, count, megabytes = time.monotonic(), 0, 0.0
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", "install", *arguments]
    print("  Looking for what is missing ...", flush=True)
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as pip:
        assert pip.stdout is not None
        for line in pip.stdout:
            if package := fetched(line):
                count, megabytes = count + 1, megabytes + package[1]
                print(f"  {package[0]}", flush=True)
            elif line.startswith("Installing collected packages:"):
                print(f"  Unpacking {line.count(',') + 1} packages ...", flush=True)
    if pip.returncode == 0:
        seconds = time.monotonic() - began
        print(f"  Fetched {count} files, {megabytes:.0f} MB; it took {seconds:.0f} s.", flush=True)
    return pip.returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
