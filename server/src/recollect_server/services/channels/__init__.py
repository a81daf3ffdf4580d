"""Channels: what comes in over them, to which conversation it goes, who is an owner there, and slash commands.

`receiving` takes a message in, `routes` knows where it goes, `commands` answers commands, `identities` knows owners and persons,
`flood` slows senders down.
"""
