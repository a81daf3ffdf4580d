"""URL of a database, which may hold a password: people see it without."""

import re

_PASSWORD = re.compile(r"^([^/]*//[^:/@?]*:|(?![^/]*//)[^/@?]*:).*@")
_PARAMETER = re.compile(r"([?&][^=&]*pass[^=&]*=)[^&]*", re.IGNORECASE)


def without_password(url: str) -> str:
    """Return a URL with `***` for its password, whatever else is wrong with it."""
    return _PARAMETER.sub(r"\1***", _PASSWORD.sub(r"\1***@", url))
