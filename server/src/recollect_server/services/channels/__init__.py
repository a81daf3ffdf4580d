"""Channels: what comes in over them, to which conversation it goes, who is an owner there, and
slash commands.

`receiving` takes a message in, `commands` answers commands, `identities` knows owners and persons,
`rate_limit` limits senders. Where messages go is known by the space itself
(`services.space.routes`), for every write may say it.

`transport` calls it and `app` builds it; of the other services recall asks `identities` who a
person is. Nothing else imports it.
"""
