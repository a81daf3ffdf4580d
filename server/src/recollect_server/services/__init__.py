"""Floor 4: what the product does, in plain Python types. `transport`, `jobs`, `app` and `cli`
import it; it knows nothing of them.

- `space` holds one owner's data open, and every write of a conversation goes by it. It imports no
  other room.
- What callers ask for: `conversations`, `working_context`, `anchors`, and in rooms of their own
  `recall`, `context`, `channels`, `external`, `streaming`. `deletion` ends a conversation,
  `idempotency` answers a repeated request as the first time, `tiers` knows what was used lately.
- What happens behind the callers: `notes` writes them, `upkeep` keeps files and index sound.

Each imports only from those below it: `[tool.importlinter]` in `pyproject.toml` has the order.
"""
