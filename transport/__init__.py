"""HTTP and websocket transport: the server protocol and the app
proxy. Independent of Berth's domain.
"""
