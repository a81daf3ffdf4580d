"""The server as a process: `app` composes it of parts, `settings` says how, `jobs` work beside the
calls, `commands` are the command line, and `features` is the list of features.
"""
