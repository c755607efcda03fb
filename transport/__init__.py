"""HTTP and websockets on the wire: the server protocol and the proxy. Knows nothing of Berth's domain."""
