#!/usr/bin/env bash
# Tests the Python SDK in a virtual environment of its own under .cache, made anew
# when sdk/python/pyproject.toml, this script or the interpreter changes. boto3 is for the
# Go tests of the Lambda front.
set -euo pipefail
cd "$(dirname "$0")/.."

python=${PYTHON:-python3}
if ! command -v "$python" >/dev/null; then
	echo "$python is missing; on Debian and Ubuntu: apt-get install -y python3 python3-venv" >&2
	exit 1
fi
if ! "$python" -c 'import sys; sys.exit(sys.version_info < (3, 9))'; then
	echo "$("$python" --version) is too old for the Python SDK, which wants 3.9 or later; set PYTHON to a newer one" >&2
	exit 1
fi

venv=.cache/venv
stamp=$("$python" -c 'import sys; print(sys.version, sys.prefix)'; cat sdk/python/pyproject.toml tools/python.sh | cksum)
if [ "$(cat "$venv/made-for" 2>/dev/null)" != "$stamp" ]; then
	rm -rf "$venv"
	mkdir -p .cache
	if ! "$python" -m venv "$venv"; then
		echo "python3 cannot make virtual environments; on Debian and Ubuntu: apt-get install -y python3-venv" >&2
		exit 1
	fi
	"$venv/bin/python" -m pip install --quiet --disable-pip-version-check -e 'sdk/python[test]' 'boto3>=1.34'
	printf '%s\n' "$stamp" >"$venv/made-for"
fi

venv=$PWD/$venv
cd sdk/python
"$venv/bin/python" -m mypy --no-error-summary
"$venv/bin/python" -m pytest "$@"
