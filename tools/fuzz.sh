#!/usr/bin/env bash
# Runs every fuzz test for a while, one after the other: tools/fuzz.sh [TIME]
set -euo pipefail
cd "$(dirname "$0")/.."

time=${1:-30s}
found=0
while IFS= read -r file; do
	package=./$(dirname "$file")
	while IFS= read -r name; do
		found=$((found + 1))
		echo "fuzz $package $name for $time"
		go test -run '^$' -fuzz "^$name\$" -fuzztime "$time" "$package"
	done < <(sed -n 's/^func \(Fuzz[A-Za-z0-9_]*\)(.*/\1/p' "$file")
done < <(grep -rl --include='*_test.go' '^func Fuzz' . --exclude-dir=.cache --exclude-dir=bench | sed 's|^\./||' | sort)
echo "$found fuzz tests ran for $time each"
