"""The files of the page. All are in memory from the start: no path of a request reaches a disk."""

import hashlib
import mimetypes
import re
from dataclasses import dataclass
from importlib.resources import files
from importlib.resources.abc import Traversable

INDEX = "/index.html"
_TYPES = {
    ".js": "text/javascript",
    ".css": "text/css",
    ".html": "text/html",
    ".svg": "image/svg+xml",
    ".woff2": "font/woff2",
    ".png": "image/png",
    ".webmanifest": "application/manifest+json",
}
VIEWS = (
    "audit",
    "backups",
    "c",
    "health",
    "import",
    "insights",
    "profile",
    "search",
    "settings",
    "third-parties",
    "tokens",
)
"""The first parts of the paths of views, as `web/src/views` has them."""
_VIEW = re.compile(rf"/(?:(?:{'|'.join(VIEWS)})(?:/[\w-]{{1,128}})?/?)?", re.ASCII)


@dataclass(frozen=True, slots=True)
class File:
    """One file, with the headers that it is sent with."""

    content: bytes
    headers: tuple[tuple[str, str], ...]
    etag: str


class PageFiles:
    """The files that the build wrote, by path."""

    def __init__(self, base: str = "", signs_in: bool = True, most_import: int = 0) -> None:
        """Read the files that are served under the path `base`, whose sessions a proxy opens unless
        `signs_in`. `most_import` is the bytes of a file that the page imports, 0 where it imports
        none.
        """
        self._files = dict(_walk(files(__package__) / "static", ""))
        # The build has paths beside its index, which is served for views of any depth.
        index = self._files[INDEX].content.replace(b'"./', f'"{base}/'.encode())
        if not signs_in:
            index = index.replace(b"<html ", b'<html data-sign-in="proxy" ')
        if most_import:
            index = index.replace(b"<html ", b'<html data-most-import="%d" ' % most_import)
        self.index = self._files[INDEX] = _file(INDEX, index)

    def find(self, path: str) -> File | None:
        """Return the file of a path, and for the path of a view the page itself."""
        return self.index if _VIEW.fullmatch(path) else self._files.get(path)


def _walk(folder: Traversable, prefix: str) -> list[tuple[str, File]]:
    entries = []
    for entry in folder.iterdir():
        path = f"{prefix}/{entry.name}"
        if entry.is_dir():
            entries += _walk(entry, path)
        else:
            entries.append((path, _file(path, entry.read_bytes())))
    return entries


def _file(path: str, content: bytes) -> File:
    suffix = path[path.rfind(".") :]
    kind = _TYPES.get(suffix) or mimetypes.guess_type(path)[0] or "application/octet-stream"
    etag = f'"{hashlib.sha256(content).hexdigest()[:32]}"'
    headers = (
        ("content-type", f"{kind}; charset=utf-8" if kind.startswith("text/") else kind),
        ("cache-control", "no-cache"),
        ("etag", etag),
    )
    return File(content, headers, etag)
