"""Insight: what is counted of conversations, by spans of time."""
