"""Floor 5: the only place that knows gRPC and protobuf.

A handler does four things: check, call, convert, return. `checks` refuses bad input, `convert` turns messages into the house's
types and back, `errors` is the one table from the house's errors to gRPC codes, `handling` is the door around every handler,
`pages` makes page tokens, `pool` has the threads, `server` builds it all. One file for each service.
"""
