"""Bytes that nobody meant, for both ends of the wire: what may happen to them, and a search for what else does."""
