"""Exports of other products, read into plans of an import: `chatgpt`, `claude` and `gemini`."""
