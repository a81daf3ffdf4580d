"""Vectors for what was said: `plan` says what to embed next, `vector_writer` stores it."""
