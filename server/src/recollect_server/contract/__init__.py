"""The gRPC layer, which alone knows gRPC and protobuf. Only `run` imports it.

A handler calls a service, converts and returns: its request was checked before. Each service has a
module of handlers, as `recall_service`. Every handler runs inside `handling`, most in the space of
their caller, which has a line in the log for calls that fail or take long.

- Requests: `rules` has the rules of fields, which the contract states, `checks` what goes beyond
  them; both refuse wrong fields by name. `wire` names the field that even protobuf cannot read.
- `convert` turns messages into domain types and back, and seals cursors and page tokens; what one
  service alone converts stands beside its handlers.
- Responses: `updates` encodes the updates of streams, `errors` is the one table from errors to
  gRPC's codes.
- Streams: `streams` has the subscribers, `held` what is open, also of streams that rarely send, as
  health's, and the threads that send.
- `gate` finds the caller and the space of a call, `pool` has the threads of all other calls;
  `server` builds everything, and `listening` opens its addresses.
"""
