"""The page of Recollect: `recollect-web` serves its files and forwards its calls from the Connect
protocol, which browsers speak, to gRPC.
"""
