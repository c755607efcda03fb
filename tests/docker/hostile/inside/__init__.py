"""What a hostile person tries inside a session: runs there, with nothing but the standard library."""
