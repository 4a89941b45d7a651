#!/usr/bin/env bash
# Tests the Python client against a real daemon, whose workers are of the Python SDK.
# tools/python.sh has made the virtual environment.
set -euo pipefail
cd "$(dirname "$0")/.."

python=$PWD/.cache/venv/bin/python
mkdir -p .cache/bin
go build -o .cache/bin/bullpen ./cmd/bullpen
work=$(mktemp -d)
daemon=
trap '[ -z "$daemon" ] || kill "$daemon" 2>/dev/null; wait; rm -rf "$work"' EXIT
port=$("$python" -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
cat >"$work/bullpen.yaml" <<END
http: {listen: "127.0.0.1:$port"}
pools:
  python:
    command: ["$python", "$PWD/sdk/python/tests/test_client_daemon.py"]
    env: {PYTHONDONTWRITEBYTECODE: "1"}
    workers: {max: 2}
    ephemeral: true
END
.cache/bin/bullpen serve --config "$work/bullpen.yaml" >"$work/log" 2>&1 &
daemon=$!
export BULLPEN_TEST_URL=http://127.0.0.1:$port
for _ in $(seq 200); do
	if "$python" -c "import urllib.request; urllib.request.urlopen('$BULLPEN_TEST_URL/readyz', timeout=1)" 2>/dev/null; then
		break
	fi
	sleep 0.1
done
if ! (cd sdk/python && "$python" -m pytest tests/test_client_daemon.py); then
	tail -30 "$work/log" >&2
	exit 1
fi
kill -TERM "$daemon"
wait "$daemon"
daemon=
