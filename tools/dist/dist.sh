#!/usr/bin/env bash
# Makes the files of a release from the commit that is checked out:
#
#   tools/dist/dist.sh OUT [VERSION]
#
# They are built in a clone, so that what is not committed leaves no trace in them.
# VERSION (v1.2.3) becomes a tag of the clone, from which the go command takes the
# version; without it that is a tag of the commit, or the pseudo-version of the commit.
set -euo pipefail
cd "$(dirname "$0")/../.."
mkdir -p "$1"
out=$(cd "$1" && pwd)
version=${2:-}

[ -z "$(git status --porcelain)" ] || echo "dist: what is not committed is left out" >&2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
git clone -q . "$work/src"
[ -z "$version" ] || git -C "$work/src" -c tag.gpgSign=false tag -f "$version" >/dev/null

# The versions are fixed: another builder makes other bytes.
venv=$PWD/.cache/dist-venv
tools="build==1.3.0 flit_core==3.12.0"
stamp=$(python3 -c 'import sys; print(sys.version, sys.prefix)'; echo "$tools")
if [ "$(cat "$venv/made-for" 2>/dev/null)" != "$stamp" ]; then
	rm -rf "$venv"
	python3 -m venv "$venv"
	# shellcheck disable=SC2086
	"$venv/bin/python" -m pip install --quiet --disable-pip-version-check $tools
	printf '%s\n' "$stamp" >"$venv/made-for"
fi

cd "$work/src"
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct)
export SOURCE_DATE_EPOCH
go -C tools/dist build -o "$work/dist" .
"$work/dist" -out "$out" -version "$version" -python "$venv/bin/python"
