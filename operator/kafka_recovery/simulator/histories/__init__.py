"""Histories: what goes wrong when, the real engine in it, and the oracle that judges."""
