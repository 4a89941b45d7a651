#!/usr/bin/env bash
# Drives the daemon's API from docs/openapi.yaml by schemathesis, an independent
# tool: whatever it makes up, there must be no server error, no answer that the file
# does not name, no accepted request that the file forbids.
#
#     run.sh [EXAMPLES]     how many requests for each operation (50)
set -euo pipefail
cd "$(dirname "$0")/../.."

venv=.cache/openapi-venv
want=schemathesis==4.32.5
if [ "$(cat "$venv/made-for" 2>/dev/null)" != "$want" ]; then
	rm -rf "$venv"
	mkdir -p .cache
	if ! "${PYTHON:-python3}" -m venv "$venv"; then
		echo "python3 cannot make virtual environments; on Debian and Ubuntu: apt-get install -y python3-venv" >&2
		exit 1
	fi
	"$venv/bin/python" -m pip install --quiet --disable-pip-version-check "$want"
	printf '%s\n' "$want" >"$venv/made-for"
fi

mkdir -p .cache/bin
go build -o .cache/bin/bullpen ./cmd/bullpen
work=$(mktemp -d)
daemon=
trap '[ -z "$daemon" ] || kill "$daemon" 2>/dev/null; wait; rm -rf "$work"' EXIT
port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
cat >"$work/bullpen.yaml" <<END
http: {listen: "127.0.0.1:$port", max_wait: 2s}
grace: 1s
pools:
  thumbnails: {command: [cat], protocol: lines, workers: {max: 2}, ephemeral: true}
END
.cache/bin/bullpen serve --config "$work/bullpen.yaml" >"$work/log" 2>&1 &
daemon=$!
for _ in $(seq 100); do
	curl -sf "http://127.0.0.1:$port/readyz" >/dev/null && break
	sleep 0.1
done
# Answers take as long as their jobs do, and a job is given two seconds. What the tool
# keeps of a run goes into the folder that is removed.
root=$PWD
if ! (cd "$work" && PYTHONPATH=$root/tools/openapi PYTHONDONTWRITEBYTECODE=1 SCHEMATHESIS_HOOKS=hooks \
	"$root/$venv/bin/schemathesis" --config-file "$root/tools/openapi/schemathesis.toml" \
	run "$root/docs/openapi.yaml" --url "http://127.0.0.1:$port" \
	--max-examples "${1:-50}" --request-timeout 20 --seed 1 --no-color); then
	tail -30 "$work/log" >&2
	exit 1
fi
kill -TERM "$daemon"
wait "$daemon"
daemon=
