"""The formats that `recollect import` reads, one module each, into plans of an import.

`reading` opens a source and yields its lines, its text or its JSON values in bounded memory, and
says what had to be guessed of its bytes. `talks` makes a conversation of what a reader finds, and
counts and names what does not fit; `trees` chooses one branch of many. `table` lists the formats,
those of other distributions too, and recognises them by what is in a file. `finding` looks for
files in folders and archives. Nothing here knows the command line.
"""
