package confine

import "golang.org/x/sys/unix"

const (
	filterArch = unix.AUDIT_ARCH_AARCH64
	// filterAlien is beyond all numbers: there is one table only.
	filterAlien = 1 << 31
)

// archCalls are calls that not every architecture has, by the group they
// belong to.
var archCalls = map[string][]deniedCall{}
