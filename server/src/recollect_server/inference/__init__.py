"""Models: the embedding model, and the writers of notes.

`weights` finds the embedding model's files and checks them, `embedder` turns texts into vectors,
and `workers` are background threads that do so. `language_model` is the interface of a writer of
notes. `extractive` is the writer without a model; its parts are `sentences`, `titles`, `nouns`
(topics), `condensing` (summaries), and `statements` with `own_words` (anchors). `claude` and
`openai_api` call a model over `hosted`, with `prompts`, a `circuit_breaker` for failures, and a
budget (`spending`). `tools` names the tools in a summary. `services` and `app` use this package.

Slow libraries are imported when a model is made, so that a start does not wait for them.
"""
