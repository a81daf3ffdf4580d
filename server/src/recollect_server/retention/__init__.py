"""Retention: rules that retire what is old, previewed before they are in force."""
