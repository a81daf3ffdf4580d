"""Floor 3, beside storage: models.

`weights` says where the embedding model lies and whether it is whole, `embedder` turns texts into vectors. `language_model` says
what one that writes notes does: `extractive` is a rule, `claude` asks Anthropic's.

What is slow to import is imported when a model is made, not before: a start does not wait for it.
"""
