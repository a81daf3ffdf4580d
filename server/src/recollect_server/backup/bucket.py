"""Copies of backups in a bucket of an S3-compatible store.

Each file of a backup is an object, its manifest, or the archive, the last one: a backup is there
once that is. Everything else is as in the folder, so a copy that was fetched is verified and
restored as any other.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import Any
from urllib.parse import urlsplit

from recollect_server.backup.manifest import ARCHIVE, MANIFEST, CannotCopy
from recollect_server.backup.names import backup_time
from recollect_server.kernel.compare.recovery import Progress, no_progress
from recollect_server.kernel.log.files import make_folder

_LAST = (MANIFEST, ARCHIVE)


def _impatient(seconds: float) -> Any:
    """Return what makes requests of minio, each once, and within some seconds."""
    from certifi import where
    from urllib3 import PoolManager, Retry, Timeout

    return PoolManager(
        timeout=Timeout(total=seconds),
        retries=Retry(0),
        cert_reqs="CERT_REQUIRED",
        ca_certs=os.environ.get("SSL_CERT_FILE") or where(),
    )


class BackupBucket:
    """The copies at a URL. Every method raises CannotCopy, OSError."""

    def __init__(self, url: str, patience: float | None = None) -> None:
        """`url` is that of the store with the bucket and, if any, the beginning of all names, as
        https://s3.example.org/bucket/recollect. Keys are those of the AWS tools: in the environment
        or in their file of credentials. A request is given up after `patience` seconds; None: tried
        again for minutes, as an upload needs it.
        """
        try:
            from minio import Minio
            from minio.credentials.providers import (
                AWSConfigProvider,
                ChainedProvider,
                EnvAWSProvider,
            )
        except ImportError as error:
            raise CannotCopy(
                f"{error.name or 'minio'} is missing, which backups in a bucket need: install"
                " recollect-server[s3]"
            ) from error
        parts = urlsplit(url)
        self._bucket, _, prefix = parts.path.strip("/").partition("/")
        self._prefix = f"{prefix}/" if prefix else ""
        keys = ChainedProvider([EnvAWSProvider(), AWSConfigProvider()])
        try:
            keys.retrieve()
        except ValueError:
            raise CannotCopy(
                f"there is no key for {url}: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, name"
                " files of them with _FILE behind each, or name a file of credentials in"
                " AWS_SHARED_CREDENTIALS_FILE"
            ) from None
        self._client = Minio(
            parts.netloc,
            credentials=keys,
            secure=parts.scheme == "https",
            region=os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION"),
            http_client=None if patience is None else _impatient(patience),
        )
        self.url = url.rstrip("/")

    def names(self, before: str | None = None) -> Iterator[str]:
        """Iterate over the names of the complete backups of all spaces, the newest first, each
        looked at when its turn comes; `before`: those that come after that one.
        """
        with self._failing("list"):
            there = self._client.list_objects(self._bucket, self._prefix)
            names = [PurePosixPath(it.object_name or "").name for it in there if it.is_dir]
        for name in sorted(filter(backup_time, names), reverse=True):
            if (before is None or name < before) and self.has(name):
                yield name

    def has(self, name: str) -> bool:
        """Return whether a complete backup of a name is there."""
        return any(last in self._sizes(name, "backup.") for last in _LAST)

    def upload(self, backup: Path, progress: Progress = no_progress) -> None:
        """Copy a complete backup into the bucket, under its name. What an interrupted upload left
        is written anew, or removed.
        """
        if self.has(backup.name):  # of another server: both are named by the second
            raise CannotCopy(
                f"{self.url} has a backup {backup.name} already: give each server its own prefix"
            )
        files = [path for path in backup.rglob("*") if path.is_file()]
        files.sort(key=lambda path: (path.name in _LAST, path))
        sizes: dict[str, int] = {}
        for number, path in enumerate(files):
            progress(number, len(files))
            if path.name in _LAST:
                self._compare(backup.name, sizes)
            name = path.relative_to(backup).as_posix()
            with self._failing("write"):
                self._client.fput_object(
                    self._bucket, f"{self._prefix}{backup.name}/{name}", str(path)
                )
            sizes[name] = path.stat().st_size
        self._compare(backup.name, sizes)

    def _compare(self, name: str, sizes: dict[str, int]) -> None:
        """Remove the objects of a backup that are not as they were sent. Raises CannotCopy if one
        is missing then.
        """
        there = self._sizes(name)
        for odd in [it for it in there if there[it] != sizes.get(it)]:
            with self._failing("write"):
                self._client.remove_object(self._bucket, f"{self._prefix}{name}/{odd}")
            del there[odd]
        if there != sizes:
            raise CannotCopy(f"{self.url}/{name} is not as it was sent: upload it again")

    def fetch(self, name: str, target: Path, progress: Progress = no_progress) -> None:
        """Copy a backup from the bucket into a new folder."""
        if not self.has(name):
            raise CannotCopy(f"{self.url} has no complete backup {name}")
        make_folder(target)
        objects = sorted(self._sizes(name))
        for number, it in enumerate(objects):
            progress(number, len(objects))
            if ".." in PurePosixPath(it).parts or it.startswith("/"):
                raise CannotCopy(f"{self.url}/{name}/{it} is no file of a backup")
            with self._failing("read"):
                path = target / it
                self._client.fget_object(self._bucket, f"{self._prefix}{name}/{it}", str(path))
                path.chmod(0o600)

    def _sizes(self, name: str, beginning: str = "") -> dict[str, int]:
        """Return the size of each object of a backup whose name begins so."""
        folder = f"{self._prefix}{name}/"
        with self._failing("list"):
            there = self._client.list_objects(self._bucket, folder + beginning, recursive=True)
            return {(it.object_name or "").removeprefix(folder): it.size or 0 for it in there}

    @contextmanager
    def _failing(self, work: str) -> Iterator[None]:
        """Turn what the store refuses into one sentence."""
        from minio.error import MinioException, S3Error
        from urllib3.exceptions import HTTPError

        try:
            yield
        except S3Error as error:
            reason = f"{error.code}: {error.message}"
        except (MinioException, HTTPError, ValueError) as error:
            reason = str(error)
        else:
            return
        raise CannotCopy(f"cannot {work} {self.url}: {reason}")
