"""Vectors for what was said: `texts` says what to embed next, `service` has it embedded,
`vector_writer` stores it.
"""
