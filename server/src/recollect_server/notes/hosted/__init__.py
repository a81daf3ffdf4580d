"""Writers of notes that ask a model: `claude` and `openai_api` over `hosted`, which has a circuit
breaker for failures, with `prompts` and a budget (`spending`). `language_model` is the interface of
any writer. Slow libraries are imported when a writer is made.
"""
