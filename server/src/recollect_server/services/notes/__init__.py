"""What is written about conversations: `naming` takes the notes of those that went idle,
`compaction` condenses those that grew long. `jobs` runs both; nothing else of `services` calls
them.
"""
