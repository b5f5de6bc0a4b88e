#!/bin/sh
# Wheels for all platforms, or those that are named, in dist/: tools/wheels.sh [linux-x86-64 linux-arm64 macos-arm64 windows-x86-64]
# zig (the Python package ziglang) compiles for all four platforms on any of them.
set -eu
cd "$(dirname "$0")/.."
python=${PYTHON:-.venv/bin/python}
for platform in ${*:-linux-x86-64 linux-arm64 macos-arm64 windows-x86-64}; do
    WAVEFABRIC_WHEEL=$platform "$python" -m pip wheel --quiet --no-deps --wheel-dir dist .
done
ls -l dist/*.whl
