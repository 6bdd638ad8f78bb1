#!/bin/sh
# Installs this project into the environment $1, checks that it is version $2, writes what is in there to $3.
set -eu
/build/bin/pip wheel --quiet --no-deps --no-build-isolation --wheel-dir /build/wheels /src
/build/bin/pip --python "$1" install --quiet --no-cache-dir --no-deps --no-index /build/wheels/*.whl
installed=$("$1/bin/python" -c 'from importlib.metadata import version; print(version("kafka-recovery-operator"))')
if [ "$2" != "$installed" ]; then
  echo "--build-arg VERSION is '$2', and pyproject.toml says $installed: give the latter" >&2
  exit 1
fi
/build/bin/cyclonedx-py environment --output-reproducible --output-format JSON --output-file "$3" "$1/bin/python"
