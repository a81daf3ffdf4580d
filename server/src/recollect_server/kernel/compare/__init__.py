"""Comparisons of what is derived with the logs: `comparison` is of one log, for the start, the
jobs, `Verify` and the command line alike; `recovery` catches up or makes anew at a start,
`verification` looks at all of a space, with the checkers that features register (`checks`).
"""
