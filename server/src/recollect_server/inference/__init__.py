"""Floor 3, beside storage: models.

`language_model` says what one that writes notes does: `extractive` is a rule, `claude` asks Anthropic's.

What is slow to import is imported when a model is made, not before: a start does not wait for it.
"""
