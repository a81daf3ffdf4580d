"""The calls of the contract, from its descriptors."""

import importlib
import pkgutil

import recollect.v1
from google.protobuf.descriptor import MethodDescriptor

METHODS: dict[str, MethodDescriptor] = {
    method.full_name.removeprefix("recollect.v1."): method
    for it in pkgutil.iter_modules(recollect.v1.__path__)
    if it.name.endswith("_service_pb2")
    for service in importlib.import_module(
        f"recollect.v1.{it.name}"
    ).DESCRIPTOR.services_by_name.values()
    for method in service.methods
}
"""Every call, by its name as `Service.Method`."""
