"""Notes of conversations: `naming` writes those of idle ones, `compaction` condenses long ones.

`jobs` runs both; no other service calls them.
"""
