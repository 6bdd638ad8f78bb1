"""Schemas of messages that the kept library does not have."""
