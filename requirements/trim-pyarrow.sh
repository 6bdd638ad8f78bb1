#!/bin/sh
# Removes from pyarrow what is only there to compile against, and its RPC framework: a third of its size.
set -eu
pyarrow=$(echo "$1"/lib/python3*/site-packages/pyarrow)
rm -rf "$pyarrow/include" "$pyarrow/src" "$pyarrow/tests"
rm -f "$pyarrow"/*.pxd "$pyarrow"/*.pyx "$pyarrow"/libarrow_flight.so* "$pyarrow"/libarrow_python_flight.so* "$pyarrow"/_flight.*
"$1/bin/python" -c 'import pyarrow.dataset, pyarrow.fs, pyarrow.parquet'
