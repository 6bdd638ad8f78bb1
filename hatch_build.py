"""The project's addresses, as the repository says that builds the package: REPOSITORY_URL and DOCUMENTATION_URL.

No address is written down here: a fork would lead its users elsewhere. Who builds without them gets a package without.
"""

from __future__ import annotations

import os
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface


class Addresses(MetadataHookInterface):
    def update(self, metadata: dict[str, Any]) -> None:
        repository, documentation = os.environ.get("REPOSITORY_URL"), os.environ.get("DOCUMENTATION_URL")
        urls = {"Documentation": documentation} if documentation else {}
        if repository:
            urls |= {
                "Source": repository,
                "Changelog": f"{repository}/blob/main/CHANGELOG.md",
                "Issues": f"{repository}/issues",
                "Security": f"{repository}/security/policy",
            }
        if urls:
            metadata["urls"] = urls
