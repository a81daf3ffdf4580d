"""Floor 3, beside storage: models.

`weights` says where the embedding model lies and whether it is whole, `embedder` turns texts into
vectors, `workers` are threads that do so behind everything else. `language_model` says what one
that writes notes does. `extractive` is a rule, made of `sentences`, `chatter`, `condensing`
(summaries), `statements` and `own_words` (anchors). `claude` asks Anthropic's, with `prompts`:
`patience` is for when it refuses, `spending` its budget. Both name the tools of a summary by
`tools`. `services` and `app` use them.

What is slow to import is imported when a model is made, not before: a start does not wait for it.
"""
