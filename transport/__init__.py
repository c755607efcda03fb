"""HTTP and websocket transport: server protocol and app proxy, without Berth's domain."""
