"""Channels: inbound messages, the conversations that they join, and slash commands.

`receiving` stores a message, `commands` answers commands, `rate_limit` limits senders. Messages of
strangers go to `people`.
"""
