#!/usr/bin/env bash
# Runs tests in a small virtual machine that has cgroup v2 only: tools/vm.sh [PACKAGE...]
#
#   VM_PACKAGES  the packages, when none are named
#   VM_PLACES    where among the control groups: service, user, container, root
#   VM_FLAGS     more flags of go test, such as "-run Group"
#   VM_ACCEL     kvm, with the help of the processor, or tcg, without; found out if empty
#   VM_KERNEL    an image of a kernel, instead of the distribution's
#   VM_ROOT      a folder with the programs for the machine, instead of the distribution's
#
# The kernel and the programs are unpacked into .cache/vm, not installed; the
# emulator is installed when it is missing and this runs as root.
set -euo pipefail
cd "$(dirname "$0")/.."

read -ra packages <<<"${VM_PACKAGES:-./internal/confine ./internal/probe}"
[ $# -gt 0 ] && packages=("$@")
read -ra places <<<"${VM_PLACES:-service user container root}"
read -ra flags <<<"${VM_FLAGS:-}"
cache=$PWD/.cache/vm
export LC_ALL=C DEBIAN_FRONTEND=noninteractive
ulimit -c 0 # an emulator that crashes leaves no core

fail() {
	echo "test-vm: $*" >&2
	exit 1
}

# apt COMMAND...: apt-get, a second time with fresh lists when it fails.
apt() {
	apt-get -qq "$@" >&2 && return
	[ "$(id -u)" = 0 ] && apt-get -qq update >&2 && apt-get -qq "$@" >&2
}

# fetch FOLDER COMMAND...: fetches packages by a command of apt-get, as if none were
# installed, and unpacks into the folder what is in them.
fetch() {
	local to=$1 dir deb
	shift
	dir=$(mktemp -d "$cache/fetch.XXXXXX")
	mkdir "$dir/partial" "$dir/root"
	: >"$dir/status"
	if ! (cd "$dir" && apt -o Dir::State::status="$dir/status" -o Dir::Cache::archives="$dir/" \
		-o Debug::NoLocking=1 -o APT::Sandbox::User=root "$@"); then
		rm -rf "$dir"
		fail "apt-get cannot fetch the packages: run apt-get update as root"
	fi
	# Where base-files makes links of folders, these have to be there first.
	for deb in "$dir"/base-files_*.deb "$dir"/*.deb; do
		[ -e "$deb" ] || continue
		dpkg-deb --fsys-tarfile "$deb" | tar -x -C "$dir/root" --keep-directory-symlink --no-same-owner \
			--exclude='*perl*' --exclude=./usr/share/doc --exclude=./usr/share/man --exclude=./usr/share/locale --exclude=./lib/modules
	done
	rm -rf "$to"
	mv "$dir/root" "$to"
	rm -rf "$dir"
}

# kernel_package: the package that holds the newest kernel made for virtual machines.
kernel_package() {
	local meta name
	for meta in linux-image-cloud-amd64 linux-image-virtual; do
		name=$(apt-cache depends "$meta" 2>/dev/null | sed -n 's/^ *Depends: \(linux-image-[0-9][^ ]*\)$/\1/p' | head -n 1)
		[ -n "$name" ] && echo "$name" && return
	done
	return 1
}

[ "$(uname -sm)" = "Linux x86_64" ] || fail "wants Linux on x86-64, not $(uname -sm)"
mkdir -p "$cache"

if ! command -v qemu-system-x86_64 >/dev/null; then
	if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
		fail "qemu-system-x86_64 is missing; on Debian and Ubuntu: apt-get install -y --no-install-recommends qemu-system-x86"
	fi
	echo "installing qemu-system-x86"
	apt install -y --no-install-recommends qemu-system-x86
fi

if [ -z "${VM_KERNEL:-}" ] || [ -z "${VM_ROOT:-}" ]; then
	if ! command -v apt-get >/dev/null || ! command -v dpkg-deb >/dev/null; then
		fail "apt-get and dpkg-deb are missing, by which the kernel and the programs come: set VM_KERNEL and VM_ROOT"
	fi
fi
if [ -z "${VM_KERNEL:-}" ] && [ ! -d "$cache/kernel" ]; then
	package=$(kernel_package || { apt update && kernel_package; }) || fail "there is no package of a kernel for virtual machines: set VM_KERNEL"
	echo "fetching $package"
	fetch "$cache/kernel" download "$package"
fi
kernel=${VM_KERNEL:-$(find "$cache/kernel/boot" -name 'vmlinuz-*')}
if [ -z "${VM_ROOT:-}" ] && [ ! -d "$cache/root" ]; then
	programs=(base-files busybox-static coreutils dash grep procps python3 sed util-linux)
	echo "fetching ${programs[*]}"
	fetch "$cache/root" install -y --no-install-recommends --download-only "${programs[@]}"
fi
root=${VM_ROOT:-$cache/root}

export CGO_ENABLED=0
go -C tools build -o "$cache/" ./vm ./vm/init ./gotest

# machine PLACE ACCEL: the command that runs a test in a machine, quoted for go test.
machine() {
	echo "'$cache/vm' -kernel '$kernel' -init '$cache/init' -root '$root' -place $1 -accel $2"
}

# The help of the processor may be offered and not work, as in a machine that is
# virtual itself: this is tried once.
accel=${VM_ACCEL:-$(cat "$cache/accel" 2>/dev/null || true)}
if [ -z "$accel" ]; then
	accel=tcg
	if [ -w /dev/kvm ] && eval "$(machine root kvm) -limit 10s '$root/bin/busybox' true" >/dev/null 2>&1; then
		accel=kvm
	fi
	echo "$accel" >"$cache/accel"
fi

# One machine at a time, so that they do not take each other's time. All the code
# is compiled before, on all processors.
go test -c -o /dev/null "${packages[@]}"
failed=()
for place in "${places[@]}"; do
	only=()
	case $place in container | root) only=(-run 'Group|^TestAll$') ;; esac # the rest is as in service
	echo "in place $place, accelerator $accel:"
	"$cache/gotest" -exec "$(machine "$place" "$accel")" -p 1 -count=1 -timeout 10m \
		${only[@]+"${only[@]}"} ${flags[@]+"${flags[@]}"} "${packages[@]}" || failed+=("$place")
done
[ ${#failed[@]} = 0 ] || fail "failed in: ${failed[*]}"
