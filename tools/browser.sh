#!/usr/bin/env bash
# Tests the dashboard in headless Chromium against a real daemon, whose workers are of
# the Python SDK. Pictures of all pages are left in .cache/pictures.
#
#     browser.sh [FLAGS OF go test]     such as -run TestKeyboardOnly
set -euo pipefail
cd "$(dirname "$0")/.."

find_chromium() {
	for name in chromium chromium-browser google-chrome google-chrome-stable; do
		command -v "$name" && return
	done
	return 1
}
if [ -z "${CHROMIUM:-}" ] && ! CHROMIUM=$(find_chromium); then
	if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
		apt-get update -qq
		DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends chromium >/dev/null
		CHROMIUM=$(find_chromium)
	else
		echo "chromium is missing, which shows the dashboard; on Debian and Ubuntu: apt-get install -y chromium" >&2
		exit 1
	fi
fi
export CHROMIUM
mkdir -p .cache/bin .cache/pictures
go build -o .cache/bin/bullpen ./cmd/bullpen
export BULLPEN=$PWD/.cache/bin/bullpen PICTURES=$PWD/.cache/pictures
go -C tools/browser vet ./...
go -C tools/browser test -count=1 -timeout 5m "$@" .
