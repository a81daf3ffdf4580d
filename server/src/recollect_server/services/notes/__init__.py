"""Notes of conversations: `naming` takes those of idle ones, `compaction` condenses long ones.
`jobs` runs both; nothing else of `services` calls them.
"""
