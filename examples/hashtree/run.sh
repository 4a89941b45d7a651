#!/usr/bin/env bash
# Hashes every file of a tree through an elastic pool of Python workers, and
# checks the results against sha512sum.
#
#     run.sh [TREE]
#
# TREE is the source of Go's standard library unless given. Options for bullpen
# map can be given in MAPFLAGS, such as MAPFLAGS="--max 8 --idle 1s".
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
python=${PYTHON:-python3}
if [ $# -gt 0 ]; then
	tree=$(cd "$1" && pwd)
else
	tree=$(go env GOROOT)/src
fi

for tool in go "$python" sha512sum base64 find; do
	if ! command -v "$tool" >/dev/null; then
		echo "hashtree: $tool is missing; on Debian and Ubuntu: apt-get install -y golang-go python3 coreutils findutils" >&2
		exit 1
	fi
done

bin=$root/.cache/bin
mkdir -p "$bin"
(cd "$root" && go build -o "$bin/bullpen" ./cmd/bullpen)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# Names may have any characters: they end with NUL.
cd "$tree"
find . -type f -print0 | sort -z >"$work/names"
files=$(tr -cd '\0' <"$work/names" | wc -c)
echo "hashtree: $files files below $tree"

export PYTHONPATH=$root/sdk/python${PYTHONPATH:+:$PYTHONPATH}
# shellcheck disable=SC2086 # MAPFLAGS are words
"$bin/bullpen" map --files --null --protocol frames --task hash \
	--results "$work/results" --joblog "$work/log" --summary --env PYTHONPATH ${MAPFLAGS:-} \
	-- "$python" "$here/worker.py" <"$work/names"

# The results, decoded, in the form of sha512sum.
"$python" "$here/decode.py" "$work/results" <"$work/names" >"$work/ours"
xargs -0 -r sha512sum -z -- <"$work/names" >"$work/theirs"
if ! cmp "$work/ours" "$work/theirs"; then
	echo "hashtree: the results differ from sha512sum's" >&2
	exit 1
fi
echo "hashtree: all $files results equal sha512sum's"
