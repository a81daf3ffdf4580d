"""The open spaces of a server: `spaces` opens and closes them, a `lease` is a use of one."""
