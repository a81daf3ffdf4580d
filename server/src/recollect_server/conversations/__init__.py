"""Conversations as callers ask for them: created, forked, appended to, listed, renamed, closed."""
