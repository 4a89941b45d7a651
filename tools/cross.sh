#!/usr/bin/env bash
# Builds and vets everything for the systems other than the one it runs on.
set -euo pipefail
cd "$(dirname "$0")/.."

for target in linux/amd64 linux/arm64 darwin/arm64 windows/amd64; do
	echo "cross $target"
	export GOOS=${target%/*} GOARCH=${target#*/} CGO_ENABLED=0
	go build ./...
	go vet ./...
done
