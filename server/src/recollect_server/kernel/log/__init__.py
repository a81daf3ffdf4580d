"""The transcripts: one append-only JSONL file a conversation, the only truth.

One JSON object a line, UTF-8, ended by a newline. The line's last member is `"crc"`: the CRC-32 (as
in zlib) of all the bytes of the line before `,"crc"`, in eight lower-case hex digits, so damage is
seen, not read. Line 1 is of type `meta`; every other is a `turn` (a message) or an `event`. A
line's number is the message's `sequence`. Lines that one request wrote carry its `requestId` and
`requestHash`; the lines of a batch carry `"batch":[i,n]`, so that a batch which is not whole is
seen as torn.

A line that ends in nothing like a checksum is in the plain form, which people and other programs
write, with the same fields: it is taken at its word. What a few flipped bits leave of a checksum is
still like one (`lines.has_checksum`), so a damaged line of ours is never taken for a plain one. A
plain line that cannot be read stays where it is, at the end of a file too: only what a write of
ours may have left is cut off (`repair`). A message in the plain form needs its `timestamp`, and may
leave out its `turnNumber`; the first line may leave out all but its type.

`"at"` before the checksum is the line's number and the CRC-32 of its log's name, as `7.1a2b3c4d`:
`lines.Belonging` takes a line of another log, or one that stands twice, for damaged.

A third party's transcript, `ext-….jsonl` in the folder beside, and the ledgers (`anchors.jsonl` and
others) have the same lines.

`store` is the contract of a log store, which is all that the layers above know; `folder` keeps it
on files, with `files`, `writer`, `reader` and `repair`, which no other package imports but for
tools that are about files. `entries` declares what a line of each type says, by `codec`; `lines`
turns an entry into a line and back, and knows the line's place and log. Features register the lines
of their kinds of logs (`people.communication_lines`, `checkpoints.checkpoint`). `ledger` is a log
that no conversation has, as features keep them beside (`people.received`, `anchors.log`).
"""
