"""The tool of KIP-1275."""
