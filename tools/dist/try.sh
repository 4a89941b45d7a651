#!/usr/bin/env bash
# Tries each file of a release as its users get it, and whether a second build gives
# the same bytes:
#
#   tools/dist/try.sh DIST [VERSION]
#
# What needs a program that is not there, or root, is skipped with the reason.
set -euo pipefail
cd "$(dirname "$0")/../.."
repository=$PWD
dist=$(cd "$1" && pwd)
work=$(mktemp -d)
daemon=
trap '[ -z "$daemon" ] || kill "$daemon" 2>/dev/null; rm -rf "$work"' EXIT
trap 'echo "FAILED: ${BASH_SOURCE[0]}:$LINENO: $BASH_COMMAND" >&2' ERR
set -E

passed=0
skipped=0
ok() { echo "ok       $*" && passed=$((passed + 1)); }
skip() { echo "skipped  $*" && skipped=$((skipped + 1)); }
refuse() { if "$@"; then return 1; fi; }
has() { command -v "$1" >/dev/null; }

host=$(go env GOHOSTOS)_$(go env GOHOSTARCH)
name=$(basename "$dist"/bullpen_*_linux_amd64.tar.gz _linux_amd64.tar.gz)
version=${name#bullpen_}

again() {
	# Another folder, umask, number of processors, time zone and language.
	(umask 077 && GOMAXPROCS=1 TZ=Pacific/Chatham LC_ALL=C.UTF-8 tools/dist/dist.sh "$work/again" "${1:-}" >"$work/again.log" 2>&1) || { cat "$work/again.log" >&2 && return 1; }
	diff -r "$dist" "$work/again"
	ok "a second build from another folder gives the same bytes"
}

sums() {
	(cd "$dist" && sha256sum --check --quiet --strict SHA256SUMS)
	diff <(cd "$dist" && ls | grep -v '^SHA256SUMS$' | LC_ALL=C sort) <(sed 's/^[0-9a-f]*  //' "$dist/SHA256SUMS" | LC_ALL=C sort)
	ok "SHA256SUMS has $(wc -l <"$dist/SHA256SUMS") files, and they fit"
}

# archive unpacks the archive of a system into $work/SYSTEM_ARCH.
archive() {
	local target=$1 folder=$work/$1 program=bullpen
	mkdir "$folder"
	if [ "${target%_*}" = windows ]; then
		program=bullpen.exe
		python3 -m zipfile -e "$dist/${name}_$target.zip" "$folder"
	else
		tar -xzf "$dist/${name}_$target.tar.gz" -C "$folder"
	fi
	folder=$folder/${name}_$target
	cmp "$folder/LICENSE" LICENSE
	for file in README.md THIRD-PARTY completions/{bullpen.bash,_bullpen,bullpen.fish,bullpen.ps1} man/bullpen.1.gz man/bullpen-map.1.gz; do
		[ -s "$folder/$file" ]
	done
	# What the linker has recorded, in lines of key and value.
	go version -m "$folder/$program" >"$work/recorded"
	for recorded in "mod	github.com/bullpen-run/bullpen	v$version" "build	GOOS=${target%_*}" "build	GOARCH=${target#*_}" "build	CGO_ENABLED=0" "build	-trimpath=true"; do
		grep -qF "	$recorded" "$work/recorded"
	done
	refuse grep -qF "/src/internal/cli/root.go" "$folder/$program"
	if has file; then
		case $target in
		linux_amd64) kind='ELF 64-bit.*x86-64.*statically linked' ;;
		linux_arm64) kind='ELF 64-bit.*aarch64.*statically linked' ;;
		darwin_amd64) kind='Mach-O 64-bit.*x86_64' ;;
		darwin_arm64) kind='Mach-O 64-bit.*arm64' ;;
		windows_amd64) kind='PE32\+.*x86-64.*MS Windows' ;;
		windows_arm64) kind='PE32\+.*(Aarch64|ARM64).*MS Windows' ;;
		esac
		file "$folder/$program" | grep -qE "$kind"
	fi
	ok "the archive for $target has the program for it, its license and its pages"
	bom "$target"
}

# bom compares the list of parts with what the linker has recorded.
bom() {
	python3 - "$dist/${name}_$1.cdx.json" "$work/recorded" <<'PY'
import json, sys
bom = json.load(open(sys.argv[1]))
assert bom["bomFormat"] == "CycloneDX" and bom["metadata"]["component"]["version"].startswith("v"), bom["metadata"]
listed = {(c["name"], c["version"]) for c in bom["components"] if c["name"] != "std"}
lines = (line.split() for line in open(sys.argv[2]))
linked = {(words[1], words[2]) for words in lines if words[0] == "dep"}
assert listed == linked and len(linked) > 10, listed ^ linked
assert all(len(c["hashes"][0]["content"]) == 64 for c in bom["components"] if c["name"] != "std")
PY
	ok "the list of parts for $1 names the modules that are linked"
}

runs() {
	if [ ! -d "$work/$host" ]; then
		skip "no program of the release runs on $host"
		return
	fi
	local folder=$work/$host/${name}_$host
	"$folder/bullpen" version | grep -qF "bullpen v$version ("
	diff <(printf '1\n2\n3\n' | "$folder/bullpen" map -k -- sed -u 's/^/line /') <(printf 'line %d\n' 1 2 3)
	ok "the unpacked program prints its version, and bullpen map runs"
	"$folder/bullpen" completion bash | cmp - "$folder/completions/bullpen.bash"
	"$folder/bullpen" completion zsh | cmp - "$folder/completions/_bullpen"
	"$folder/bullpen" completion fish | cmp - "$folder/completions/bullpen.fish"
	"$folder/bullpen" completion powershell | cmp - "$folder/completions/bullpen.ps1"
	ok "its completions are those that it prints"
}

completions() {
	local folder=$work/linux_amd64/${name}_linux_amd64/completions shell
	bash -n "$folder/bullpen.bash"
	ok "bash reads its completions"
	for shell in zsh:_bullpen fish:bullpen.fish; do
		if has "${shell%:*}"; then
			"${shell%:*}" -n "$folder/${shell#*:}"
			ok "${shell%:*} reads its completions"
		else
			skip "there is no ${shell%:*} to read its completions"
		fi
	done
	if has pwsh; then
		pwsh -NoProfile -Command ". '$folder/bullpen.ps1'"
		ok "PowerShell reads its completions"
	else
		skip "there is no pwsh to read its completions"
	fi
}

pages() {
	local folder=$work/linux_amd64/${name}_linux_amd64/man page
	if ! has man; then
		skip "there is no man to render the manual pages"
		return
	fi
	for page in "$folder"/*.gz; do
		# Without warnings; a page has a name, a synopsis and a description.
		MANWIDTH=80 man --warnings -E UTF-8 -l "$page" >"$work/page" 2>"$work/warnings"
		if [ -s "$work/warnings" ] || ! grep -q '^NAME' "$work/page" || ! grep -q '^SYNOPSIS' "$work/page" || ! grep -q '^DESCRIPTION' "$work/page"; then
			echo "$page:" >&2 && cat "$work/warnings" "$work/page" >&2 && false
		fi
	done
	MANWIDTH=80 man -E UTF-8 -l "$folder/bullpen-map.1.gz" | grep -q -- --keep-order
	ok "man renders $(ls "$folder" | wc -l) pages without a warning"
}

# package looks at the package of an architecture.
package() {
	local deb=$dist/${name}_linux_$1.deb
	if ! has dpkg-deb; then
		skip "there is no dpkg-deb to read the package for $1"
		return
	fi
	dpkg-deb -f "$deb" Architecture | grep -qx "$1"
	# A version before a release sorts before it.
	dpkg --compare-versions "$(dpkg-deb -f "$deb" Version)" le "${version%%-*}"
	dpkg-deb -x "$deb" "$work/deb_$1"
	cmp "$work/deb_$1/usr/bin/bullpen" "$work/linux_$1/${name}_linux_$1/bullpen"
	cmp "$work/deb_$1/etc/bullpen/bullpen.yaml" deploy/systemd/bullpen.yaml
	cmp "$work/deb_$1/usr/lib/systemd/system/bullpen.service" deploy/systemd/bullpen.service
	for file in man/man1/bullpen.1.gz bash-completion/completions/bullpen zsh/vendor-completions/_bullpen fish/vendor_completions.d/bullpen.fish doc/bullpen/{copyright,THIRD-PARTY}; do
		[ -s "$work/deb_$1/usr/share/$file" ]
	done
	dpkg-deb -c "$deb" >"$work/listed"
	refuse grep -v ' root/root ' "$work/listed"
	dpkg-deb --ctrl-tarfile "$deb" | tar -xO ./conffiles | grep -qx /etc/bullpen/bullpen.yaml
	ok "the package for $1 has the program, pages, unit and configuration"
	if has lintian; then
		# It is one static program, and its changelog is not that of a distribution.
		lintian --allow-root --fail-on error --suppress-tags statically-linked-binary,no-changelog "$deb"
		ok "lintian finds no error in the package for $1"
	else
		skip "there is no lintian to check the package for $1"
	fi
}

# installs installs the package, runs it and purges it, on an overlay of this system.
installs() {
	local deb=$dist/${name}_$host.deb
	if [ "$(id -u)" != 0 ] || ! has dpkg || [ ! -f "$deb" ]; then
		skip "to install the package takes root on Debian or Ubuntu"
		return
	fi
	mkdir "$work/overlay"
	cat >"$work/overlay.sh" <<'SH'
mount -t tmpfs none "$WORK/overlay"
mkdir "$WORK"/overlay/{up,work,root}
mount -t overlay overlay -o "lowerdir=/,upperdir=$WORK/overlay/up,workdir=$WORK/overlay/work" "$WORK/overlay/root"
SH
	if ! WORK=$work unshare -m bash -e "$work/overlay.sh" 2>/dev/null; then
		skip "this kernel makes no overlay to install the package on"
		return
	fi
	cp "$deb" "$work/bullpen.deb"
	WORK=$work VERSION=$version unshare -m bash -euo pipefail <<'SH'
. "$WORK/overlay.sh"
cp "$WORK/bullpen.deb" "$WORK/overlay/root/bullpen.deb"
chroot "$WORK/overlay/root" bash -euo pipefail -c '
	dpkg -i /bullpen.deb >/dev/null
	/usr/bin/bullpen version | grep -qF "bullpen v'"$VERSION"' ("
	[ "$(stat -c "%U:%G %a" /etc/bullpen /etc/bullpen/bullpen.yaml | tr "\n" " ")" = "root:bullpen 750 root:bullpen 640 " ]
	chroot --userspec=bullpen:bullpen / /usr/bin/bullpen serve --config /etc/bullpen/bullpen.yaml --check >/dev/null
	dpkg -i /bullpen.deb >/dev/null
	echo "# changed" >>/etc/bullpen/bullpen.yaml
	dpkg -r bullpen >/dev/null
	[ ! -e /usr/bin/bullpen ] && [ -e /etc/bullpen/bullpen.yaml ]
	dpkg -P bullpen >/dev/null
	[ ! -e /etc/bullpen/bullpen.yaml ]
	getent passwd bullpen >/dev/null
'
SH
	ok "the package can be installed, upgraded, removed and purged"
}

# image checks the image of an architecture and unpacks it into $work/image_ARCH/root.
image() {
	local folder=$work/image_$1
	mkdir -p "$folder/layout" "$folder/root"
	tar -xf "$dist/${name}_linux_$1.oci.tar" -C "$folder/layout"
	python3 - "$folder/layout" "$1" >"$folder/layers" <<'PY'
import hashlib, json, os, sys
root, arch = sys.argv[1:]
def blob(descriptor):
    path = os.path.join(root, "blobs", *descriptor["digest"].split(":"))
    data = open(path, "rb").read()
    assert "sha256:" + hashlib.sha256(data).hexdigest() == descriptor["digest"] and len(data) == descriptor["size"], path
    return path
assert json.load(open(os.path.join(root, "oci-layout")))["imageLayoutVersion"] == "1.0.0"
(entry,) = json.load(open(os.path.join(root, "index.json")))["manifests"]
assert entry["platform"] == {"architecture": arch, "os": "linux"}, entry
manifest = json.load(open(blob(entry)))
config = json.load(open(blob(manifest["config"])))
layers = [blob(layer) for layer in manifest["layers"]]
(docker,) = json.load(open(os.path.join(root, "manifest.json")))
assert [os.path.join(root, docker["Config"])] == [blob(manifest["config"])] and [os.path.join(root, l) for l in docker["Layers"]] == layers, docker
assert config["architecture"] == arch and config["config"]["Entrypoint"] == ["/usr/bin/bullpen"] and config["config"]["User"] == "65532:65532", config
print(*layers, sep="\n")
print(docker["RepoTags"][0], json.dumps(config["config"], sort_keys=True), file=sys.stderr)
PY
	while read -r layer; do
		tar --numeric-owner -xzf "$layer" -C "$folder/root"
	done <"$folder/layers"
	cmp "$folder/root/usr/bin/bullpen" "$work/linux_$1/${name}_linux_$1/bullpen"
	[ "$(stat -c %a "$folder/root/tmp")" = 1777 ]
	grep -q 'BEGIN CERTIFICATE' "$folder/root/etc/ssl/certs/ca-certificates.crt"
	ok "the image for $1 is a layout of OCI whose digests fit, with the program"
}

# serves starts the daemon as the image does, and asks it as its health check does.
serves() {
	local root=$work/image_${host#*_}/root
	if [ "$(id -u)" != 0 ] || [ ! -d "$root" ]; then
		skip "to start what is in the image takes root on Linux"
		return
	fi
	chown 65532:65532 "$root/var/lib/bullpen"
	local port
	port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
	local inside=(env -i PATH=/usr/bin STATE_DIRECTORY=/var/lib/bullpen BULLPEN_HTTP_LISTEN=127.0.0.1:"$port" BULLPEN_URL=http://127.0.0.1:"$port"
		"$(command -v chroot)" --userspec=65532:65532 "$root" /usr/bin/bullpen)
	"${inside[@]}" version | grep -qF "bullpen v$version ("
	"${inside[@]}" serve >"$work/serve.log" 2>&1 &
	daemon=$!
	for _ in $(seq 100); do
		"${inside[@]}" status >"$work/status" 2>&1 && break
		sleep 0.1
	done
	grep -qF "v$version" "$work/status" || { cat "$work/status" "$work/serve.log" >&2 && return 1; }
	kill -TERM "$daemon"
	wait "$daemon"
	daemon=
	ok "the daemon of the image serves, is healthy, and stops"
}

loads() {
	if ! has docker || ! docker info >/dev/null 2>&1; then
		skip "there is no docker daemon to load the image into"
		return
	fi
	docker load -i "$dist/${name}_$host.oci.tar"
	docker run --rm "bullpen:$version" version | grep -qF "bullpen v$version ("
	docker image rm "bullpen:$version" >/dev/null
	ok "docker loads and runs the image"
}

python() {
	local wheel sdist program=$work/$host/${name}_$host/bullpen
	wheel=$(ls "$dist"/bullpen-*.whl) sdist=$(ls "$dist"/bullpen-*.tar.gz)
	for package in "$wheel" "$sdist"; do
		local venv
		venv=$work/venv_${package##*.}
		python3 -m venv "$venv"
		"$venv/bin/python" -m pip install --quiet --disable-pip-version-check "$package"
		(cd "$work" && "$venv/bin/python" -c 'import importlib.metadata, bullpen, bullpen.client; assert bullpen.__version__ == importlib.metadata.version("bullpen"), bullpen.__version__; assert importlib.metadata.metadata("bullpen")["License-Expression"] == "Apache-2.0"; print(bullpen.__version__)') >"$work/sdk"
		[[ "$(basename "$package")" == "bullpen-$(cat "$work/sdk")"[-.]* ]]
		ok "pip installs $(basename "$package"), and Python imports it"
		cat >"$work/worker.py" <<'PY'
import bullpen

@bullpen.task
def shout(line: bytes) -> bytes:
    return line.upper()

bullpen.run()
PY
		if [ ! -x "$program" ]; then
			skip "no program of the release runs a worker on $host"
		else
			diff <(printf 'one\ntwo\n' | "$program" map -k --protocol frames --task shout -- "$venv/bin/python" "$work/worker.py") <(printf 'ONE\nTWO\n')
			ok "a worker with it answers the unpacked program"
		fi
	done
}

go -C tools/dist vet ./...
go -C tools/dist test ./...
again "${2:-}"
sums
for target in linux_amd64 linux_arm64 darwin_amd64 darwin_arm64 windows_amd64 windows_arm64; do
	archive "$target"
done
runs
completions
pages
for arch in amd64 arm64; do
	package "$arch"
	image "$arch"
done
installs
serves
loads
python
echo "dist: $passed checks passed, $skipped were skipped"
