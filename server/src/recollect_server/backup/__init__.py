"""Backups: a copy of the transcripts of all spaces, those of third parties too, and their ledgers,
while the server writes them; and the way back. `folder` makes one, compares it with its `manifest`
and removes older ones, `restoring` copies one back.

The index is left out, for it is made anew from the transcripts; the vectors too: words answer while
they are worked out anew, and they may be of texts that were deleted since. A backup has the shape
of a data folder, so a server can run on it.

With keys, all of this is one encrypted file, `backup.encrypted` (see `backup.archive`), and
nothing of it is written in plain text.
"""
