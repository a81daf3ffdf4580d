"""Channels: inbound messages, the conversations that they join, owners, and slash commands.

`receiving` stores a message, `commands` answers commands, `identities` has the owners and their
addresses, `rate_limit` limits senders. The routes from places to conversations belong to the space
(`services.space.projection`), because any write may change them.

`transport` calls it and `app` builds it; of the other services, recall asks `identities` for a
person's addresses. Nothing else imports it.
"""
