"""The trace that a caller is in, as metadata of its calls (W3C Trace Context).

OpenTelemetry is no dependency: a program that traces has imported it, and only then is there a
trace to send.
"""

import sys

TRACEPARENT = "traceparent"


def with_trace(metadata: tuple[tuple[str, str], ...]) -> tuple[tuple[str, str], ...]:
    """Return the metadata of a call, with the caller's trace if it is in one."""
    if (traces := sys.modules.get("opentelemetry.trace")) is None:
        return metadata
    context = traces.get_current_span().get_span_context()
    if not context.is_valid:
        return metadata
    flags = int(context.trace_flags) & 0xFF
    parent = f"00-{context.trace_id:032x}-{context.span_id:016x}-{flags:02x}"
    return (*metadata, (TRACEPARENT, parent))
