"""Floor 5: the only place that knows gRPC and protobuf. Only `app` imports it, and `cli` what it
checks by.

A handler does four things: check, call, convert, return. There is one file of them for each
service, `conversation_service` and the others, and around every handler one door, `handling`.

- What comes in: `checks` (with `checks_message`, `checks_channel`) refuses what is wrong by its
  name, `wire` names the field where not even protobuf can read the bytes, `pages` reads page
  tokens.
- `convert` (with `convert_channel`, `convert_external`, `convert_recall`) turns messages into the
  house's types and back.
- What goes out: `updates` makes the bytes that streams are sent, `errors` is the one table from the
  house's errors to gRPC's codes.
- Streams: `streams` knows who watches, `senders` are the threads that send.
- `pool` has the threads of all other calls; `server` builds it all, and listens.
"""
