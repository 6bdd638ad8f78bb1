"""The ACLs that docs/how-to/acls.md shows are those that tests/brokers tries on a real authorizer."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from itertools import pairwise

import pytest

from brokers.test_acls import EVERYTHING, PRINCIPALS
from unit.docs.commands import BLOCK, ROOT, lines

Acl = tuple[str, str, str]

LOOKS, ALSO_RECOVERS = BLOCK.findall((ROOT / "docs" / "how-to" / "acls.md").read_text())


def granted(block: str) -> Iterator[Acl]:
    """What its commands add, in the words of tests/brokers."""
    for line in lines(block):
        words = shlex.split(line)
        assert {"--add", "User:kafka-recovery"} <= set(words), line
        resource = ("topic", words[words.index("--topic") + 1]) if "--topic" in words else ("cluster", "kafka-cluster")
        for option, operation in pairwise(words):
            if option == "--operation":
                yield *resource, re.sub(r"(?<=[a-z])(?=[A-Z])", "_", operation).lower()


@pytest.mark.parametrize(("who", "typed"), [("looks", LOOKS), ("recovers", LOOKS + ALSO_RECOVERS)])
def test_a_principal_gets_what_it_was_tried_with_and_no_more(who: str, typed: str) -> None:
    assert sorted(granted(typed)) == sorted(EVERYTHING[acl] for acl in PRINCIPALS[who])
