#!/usr/bin/env bash
# Makes what tests run as workers: programs that know nothing of Bullpen. The runtime client
# of AWS Lambda and web frameworks for Python go into a virtual environment under .cache,
# Express for Node.js beside it if there is npm. Both are made anew when their versions, or
# the interpreter, change.
set -euo pipefail
cd "$(dirname "$0")/.."

python=${PYTHON:-python3}
folder=.cache/clients
stamp=$("$python" -c 'import sys; print(sys.version, sys.prefix)'; cksum <tools/clients.txt; command -v npm || true)
if [ "$(cat "$folder/made-for" 2>/dev/null)" = "$stamp" ]; then
	exit
fi
rm -rf "$folder"
mkdir -p "$folder"
if ! { "$python" -m venv "$folder/python" && "$folder/python/bin/python" -m pip install --quiet --disable-pip-version-check -r tools/clients.txt; }; then
	echo "the clients of Lambda and the web frameworks cannot be installed (they need a C++ compiler and the headers of Python: apt-get install -y g++ python3-dev): their tests are skipped" >&2
	rm -rf "$folder"
	exit
fi
if command -v npm >/dev/null; then
	npm install --silent --no-audit --no-fund --prefix "$folder/node" express@5.1.0 || echo "Express cannot be installed: its test is skipped" >&2
fi
printf '%s\n' "$stamp" >"$folder/made-for"
