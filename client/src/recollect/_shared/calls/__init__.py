"""Arguments into calls: one module for each service, one function for each RPC. Both clients are made of it."""
