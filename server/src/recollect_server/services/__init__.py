"""Floor 4: what the product does, in plain Python types. `transport`, `jobs`, `app` and `cli` import it; it knows nothing of them.

`space` holds one owner's data open, and every write of a conversation goes by it. It is made of `head` (where a conversation ends),
`lines` (what is about to be written), `locks`, `holding` (what the disk refused), `behind` (what the index did not take in) and
`tails` (the newest turns, in memory).

- What callers ask for: `conversations`, `deletion`, `working_context`, `anchors`; what has several parts is a room of its own:
  `recall`, `context`, `channels`, `external`, `streaming`. `idempotency` answers a repeated request as the first time.
- What jobs do behind the callers: `naming`, `compaction`, `repairing`; `tiers` says what was used lately.
- How index and files stay together: `catching_up` brings the index up to one conversation, `recovery` to all at a start, and
  `repairing` while the server runs; `verification` compares them, `soundness` looks at a file by itself, `backing_up` copies files.
"""
