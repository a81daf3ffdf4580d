"""One owner's data, open: how a line is written, and what is remembered of where conversations end.

`space` is the door, and writes every line of a conversation. `head` is where a conversation ends, `lines` what is about to be
written, `holding` what its transcript refused, `behind` what its index refused and `catching_up` how the index gets it, `tails` the
newest turns in memory, `routes` where messages of channels go, `locks` the order of the writers. All of `services` may use it; it
imports nothing else of `services`.
"""
