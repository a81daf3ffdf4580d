"""The product's functions in plain Python types. `transport`, `jobs`, `app` and `cli` import them;
they know nothing of those.

- `space` holds one owner's data open, and every write of a conversation goes through it. It imports
  no other service.
- `turns` reads the turns of a conversation.
- Calls: `conversations`, `conversation_notes`, `removals`, `working_context`, `anchors`, and the
  packages `recall`, `context`, `channels`, `external` and `streaming`.
- The server as a whole: `spaces` opens and closes the spaces of their owners, `tokens` are the
  callers' credentials.
- Background work: `notes` writes titles, notes and summaries, `upkeep` keeps files and index sound.

What asks the index raises IndexUnavailable, and what reads a log StorageUnavailable, both of them
DataUnavailable: docstrings say so where somebody may expect otherwise, or must do something about
it. `transport` answers both with UNAVAILABLE.

Each imports only from those below it: `[tool.importlinter]` in `pyproject.toml` has the order.
"""
