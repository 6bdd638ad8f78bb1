"""How a plan is approved at a terminal, by every program alike: its digest is typed, which only a reader of it has."""

from __future__ import annotations

TYPED = 8
"""Characters of the digest that a person types: enough to have looked at it, few enough to do it at night."""
QUESTION = f"To approve, type the first {TYPED} characters of the digest; anything else approves nothing:"


def names(typed: str, digest: str) -> bool:
    """Whether what was typed is the beginning of this digest, and long enough to be meant."""
    typed = typed.strip().lower()
    return len(typed) >= TYPED and digest.startswith(typed)
