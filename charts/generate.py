"""Writes what the charts hold of other files: definitions, manifests, monitoring, the version, the table of values.

    python charts/generate.py              # after a change in crds/, manifests/, monitoring/, a version or values.yaml
    python charts/generate.py --release    # in a release: images, runbooks and links, as the environment says

A chart can't reach outside its folder, so it has copies; tests/charts holds them equal. Text in, text out: `wanted`.
"""

from __future__ import annotations

import os
import re
import sys
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parents[1]
DEFINITIONS = ROOT / "charts" / "kafka-recovery-crds"
OPERATOR = ROOT / "charts" / "kafka-recovery-operator"
COPIED = ("manifests/**/*.yaml", "monitoring/prometheus-rules.yaml", "monitoring/grafana-dashboard.json")
GENERATED = (*DEFINITIONS.glob("templates/*.yaml"), *OPERATOR.glob("files/**/*.*"))
ADDRESSES = (
    ("IMAGE_REPOSITORY", r"^  repository: (?=kafka-recovery-operator$)", "  repository: {}/"),
    ("DOCUMENTATION_URL", r'(?<=runbookUrl: )""$', "{}/runbooks"),
    ("DOCUMENTATION_URL", r"^(?=keywords: )", "home: {}\n"),
    ("REPOSITORY_URL", r"^(?=keywords: )", "sources: [{}]\n"),
)
"""What the environment of a release says, where it goes in Chart.yaml and values.yaml, and as what."""
TABLE = re.compile(r"(?<=<!-- values -->\n).*?(?=<!-- /values -->)", re.DOTALL)
KEPT = """\
metadata:
  {{- if .Values.crds.keep }}
  annotations: {helm.sh/resource-policy: keep}
  {{- end }}
  labels: {app.kubernetes.io/part-of: kafka-recovery}
"""


def wanted() -> dict[Path, str]:
    """What every generated file should hold."""
    files = {DEFINITIONS / "templates" / file.name: _definition(file) for file in (ROOT / "crds").glob("*.yaml")}
    for pattern in COPIED:
        files |= {OPERATOR / "files" / file.relative_to(ROOT): file.read_text() for file in ROOT.glob(pattern)}
    for chart in (DEFINITIONS, OPERATOR):
        files[chart / "Chart.yaml"] = _versioned((chart / "Chart.yaml").read_text())
    readme = (OPERATOR / "README.md").read_text()
    table = _table((OPERATOR / "values.yaml").read_text())
    files[OPERATOR / "README.md"] = TABLE.sub(lambda _: table, readme)
    return files


def released(text: str, addresses: Mapping[str, str]) -> str:
    """A Chart.yaml or values.yaml that leads to where this release is published, as far as that is said."""
    for name, place, words in ADDRESSES:
        if said := addresses.get(name):
            text = re.sub(place, words.format(said), text, flags=re.MULTILINE)
    return text


def _definition(file: Path) -> str:
    text = file.read_text()
    assert "{{" not in text, f"Helm would take {{{{ in {file.name} for its own"
    return text.replace("metadata:\n", KEPT, 1)


def _versioned(chart: str) -> str:
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    return re.sub(r"^(version|appVersion): .*$", rf"\1: {version}", chart, flags=re.MULTILINE)


def _table(values: str) -> str:
    rows = [f"| `{name}` | `{default}` | {meaning} |" for name, default, meaning in _values(values)]
    return "\n".join(["| value | default | |", "|---|---|---|", *rows, ""])


def _values(text: str) -> Iterator[tuple[str, str, str]]:
    """Name, default and comment of each value; one that has none in its own lines is a group of others."""
    lines = text.splitlines()

    def walk(node: yaml.MappingNode, prefix: str) -> Iterator[tuple[str, str, str]]:
        for key, value in node.value:
            meaning = _comment(lines, key.start_mark.line)
            if meaning:
                default = yaml.serialize(_flow(value), width=1000).removesuffix("...\n").strip()
                yield f"{prefix}{key.value}", default, meaning.replace("|", "\\|")
            else:
                assert isinstance(value, yaml.MappingNode), f"{prefix}{key.value} has no comment"
                yield from walk(value, f"{prefix}{key.value}.")

    root = yaml.compose(text)
    assert isinstance(root, yaml.MappingNode)
    yield from walk(root, "")


def _comment(lines: list[str], line: int) -> str:
    found: list[str] = []
    while line and lines[line - 1].lstrip().startswith("#"):
        line -= 1
        found.insert(0, lines[line].lstrip().removeprefix("#").strip())
    return " ".join(found)


def _flow(node: yaml.Node) -> yaml.Node:
    if isinstance(node, yaml.CollectionNode):
        node.flow_style = True
        for each in node.value:
            for part in each if isinstance(each, tuple) else (each,):
                _flow(part)
    return node


def main() -> None:
    if "--release" in sys.argv[1:]:
        for file in (chart / name for chart in (DEFINITIONS, OPERATOR) for name in ("Chart.yaml", "values.yaml")):
            file.write_text(released(file.read_text(), os.environ))
    files = wanted()
    for file in GENERATED:
        if file not in files:
            file.unlink()
    for file, text in files.items():
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)


if __name__ == "__main__":
    main()
