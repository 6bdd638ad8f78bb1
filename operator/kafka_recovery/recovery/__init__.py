"""The process from gather to verify, over ports."""
