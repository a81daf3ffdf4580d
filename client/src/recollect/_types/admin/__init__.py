"""Administration of a server: settings, spaces, tokens, and the state of what it keeps."""
