"""The gate that every call passes: who calls, and which space the call is about."""

import grpc
from google.protobuf.descriptor import MethodDescriptor

from recollect_server.domain.errors import InvalidField
from recollect_server.domain.ids import is_space_name
from recollect_server.domain.principal import Principal

SPACE_KEY = "recollect-space"
"""Metadata that names the space of a call."""


class Gate:
    """Admits calls. Safe to call from any thread."""

    def __init__(self, default_space: str) -> None:
        """`default_space` is that of calls that name none."""
        self._default_space = default_space

    def admit(self, method: MethodDescriptor, context: grpc.ServicerContext) -> Principal:
        """Return the caller of a call of this method. Raises InvalidField."""
        del method
        return Principal(space=self._space_of(context), peer=context.peer())

    def _space_of(self, context: grpc.ServicerContext) -> str:
        names = [value for key, value in context.invocation_metadata() if key == SPACE_KEY]
        if not names:
            return self._default_space
        if len(names) > 1:
            raise InvalidField.of(SPACE_KEY, f"is set {len(names)} times: set this metadata once")
        (name,) = names
        if not isinstance(name, str) or not is_space_name(name):
            raise InvalidField.of(
                SPACE_KEY,
                "is not the name of a space: 1 to 64 of a-z, 0-9, _ and -, the first a letter or digit",
            )
        return name
