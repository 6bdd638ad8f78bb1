"""Where helm, helm-unittest and kubeconform come from: the cache, else built once from their Go modules.

`python -m testbed.helm.distribution [PROGRAM...]` builds beforehand what the tests would build on first use; without
names only `helm`.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from functools import partial
from pathlib import Path

from testbed.go_module import GoModule, report, said_in_go_mod
from testbed.kubernetes.distribution import MAJOR, MINOR

SOURCE = Path(__file__).with_name("binary")
HELM = "helm.sh/helm/v3"
VERSION = said_in_go_mod(SOURCE, HELM)
PACKAGES = {
    "helm": f"{HELM}/cmd/helm",
    "helm-unittest": "github.com/helm-unittest/helm-unittest/cmd/helm-unittest",
    "kubeconform": "github.com/yannh/kubeconform/cmd/kubeconform",
}
# Without being told, Helm lints and templates for a Kubernetes of 2020.
LINKED = (
    f"{HELM}/internal/version.version=v{VERSION}",
    *(
        f"{HELM}/{package}.k8sVersion{value}"
        for package in ("pkg/lint/rules", "pkg/chartutil")
        for value in (f"Major={MAJOR}", f"Minor={MINOR}")
    ),
)


def fetch(*names: str) -> Mapping[str, Path]:
    """These programs (of PACKAGES), built now if need be; ProgramsUnavailable for one that can't be had."""
    return {name: _one(name) for name in names}


def _one(name: str) -> Path:
    module = GoModule(SOURCE, name, name, "3 to 5 minutes on two cores", linked=LINKED)
    return module.fetch(lambda build: build.compile(PACKAGES[name], program=name)) / name


def main() -> None:
    """Builds, if need be, and says where it lies."""
    if unknown := [name for name in sys.argv[1:] if name not in PACKAGES]:
        sys.exit(f"there is no {unknown[0]!r} here; right are {', '.join(PACKAGES)}")
    for name in sys.argv[1:] or ("helm",):
        report(name, partial(_one, name))


if __name__ == "__main__":
    main()
