"""The page of Recollect, and its gateway: `recollect-web` serves the page's files, and forwards
calls that come over HTTP, of the page and of programs with tokens, to gRPC.
"""
