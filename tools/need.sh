#!/usr/bin/env bash
# Says what is missing and how to get it: tools/need.sh COMMAND...
set -euo pipefail

missing=0
for command in "$@"; do
	command -v "$command" >/dev/null && continue
	missing=1
	case $command in
	go) echo "go is missing: install Go 1.26 or later from go.dev" ;;
	gcc) echo "gcc is missing, which the race detector needs; on Debian and Ubuntu: apt-get install -y gcc libc6-dev" ;;
	*) echo "$command is missing; on Debian and Ubuntu: apt-get install -y $command" ;;
	esac >&2
done
exit $missing
