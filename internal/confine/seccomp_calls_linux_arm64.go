package confine

import "golang.org/x/sys/unix"

const (
	filterArch = unix.AUDIT_ARCH_AARCH64
	// filterAlien is beyond all numbers: the kernel has only one table.
	filterAlien = 1 << 31
)

// archCalls are calls that not every architecture has, by their group.
var archCalls = map[string][]deniedCall{}
