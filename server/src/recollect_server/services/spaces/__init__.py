"""The open spaces of a server: `spaces` opens and closes them, `opened` is what one is to it."""
