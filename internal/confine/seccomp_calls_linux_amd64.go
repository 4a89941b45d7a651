package confine

import "golang.org/x/sys/unix"

const (
	filterArch = unix.AUDIT_ARCH_X86_64
	// filterAlien is the bit of the calls of x32, the kernel's second table for the same
	// architecture.
	filterAlien = 1 << 30
)

// archCalls are calls that not every architecture has, by their group.
var archCalls = map[string][]deniedCall{
	"machine": {
		{"ioperm", unix.SYS_IOPERM, never}, {"iopl", unix.SYS_IOPL, never},
		{"modify_ldt", unix.SYS_MODIFY_LDT, never},
	},
	"set-user-ID": {
		{"chmod (set-ID bits)", unix.SYS_CHMOD, setID(1)}, {"mknod (set-ID bits)", unix.SYS_MKNOD, setID(1)},
		{"creat (set-ID bits)", unix.SYS_CREAT, setID(1)}, {"open (set-ID bits)", unix.SYS_OPEN, setIDOpen(1)},
	},
}
