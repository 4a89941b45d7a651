package confine

import (
	"bytes"
	"encoding/binary"
	"runtime"
	"slices"
)

// The guard is a separate program of about 300 bytes instead of a mode of the host's
// executable: no code of the user's packages runs in it, it needs hardly any memory, and
// it starts in the time of one execve.
//
// As the first process of its PID namespace it makes the kernel reap orphans (SIGCHLD
// ignored) and waits for the end of file on descriptor 0, whose other end only the host
// holds. Then it exits, and the kernel kills everything left in the namespace.
//
// The code below is position independent. It is followed by guardData, which it addresses
// by the distances given here; a test disassembles it.

const (
	loadAddress = 0x400000
	headerSize  = 64
	segmentSize = 56
	codeOffset  = headerSize + 2*segmentSize
)

// guardCode is the machine code for one architecture.
type guardCode struct {
	machine uint16 // ELF machine number
	code    []byte
}

// guardCodes holds the guards, by GOARCH.
var guardCodes = map[string]guardCode{
	"amd64": {62, []byte{
		0xb8, 0x9d, 0x00, 0x00, 0x00, // 00 mov    $157,%eax        prctl(
		0xbf, 0x0f, 0x00, 0x00, 0x00, // 05 mov    $15,%edi           PR_SET_NAME,
		0x48, 0x8d, 0x35, 0x67, 0x00, 0x00, 0x00, // 0a lea 0x67(%rip),%rsi  name at 78)
		0x0f, 0x05, // 11 syscall
		0xb8, 0x0d, 0x00, 0x00, 0x00, // 13 mov    $13,%eax         rt_sigaction(
		0xbf, 0x11, 0x00, 0x00, 0x00, // 18 mov    $17,%edi           SIGCHLD,
		0x48, 0x8d, 0x35, 0x34, 0x00, 0x00, 0x00, // 1d lea 0x34(%rip),%rsi  action at 58,
		0x31, 0xd2, // 24 xor    %edx,%edx          NULL,
		0x41, 0xba, 0x08, 0x00, 0x00, 0x00, // 26 mov    $8,%r10d           8)
		0x0f, 0x05, // 2c syscall
		// again:
		0x31, 0xc0, // 2e xor    %eax,%eax        read(
		0x31, 0xff, // 30 xor    %edi,%edi          0,
		0x48, 0x8d, 0x74, 0x24, 0x80, // 32 lea    -128(%rsp),%rsi    scratch,
		0xba, 0x01, 0x00, 0x00, 0x00, // 37 mov    $1,%edx            1)
		0x0f, 0x05, // 3c syscall
		0x48, 0x83, 0xf8, 0x01, // 3e cmp    $1,%rax          a byte means nothing
		0x74, 0xea, // 42 je     again
		0x48, 0x83, 0xf8, 0xfc, // 44 cmp    $-4,%rax         EINTR
		0x74, 0xe4, // 48 je     again
		0xb8, 0xe7, 0x00, 0x00, 0x00, // 4a mov    $231,%eax        exit_group(
		0x31, 0xff, // 4f xor    %edi,%edi          0)
		0x0f, 0x05, // 51 syscall
		0x90, 0x90, 0x90, 0x90, 0x90, // 53 nop              up to a multiple of 8
		// 58: guardData, the name at 78
	}},
	"arm64": {183, []byte{
		0xe8, 0x14, 0x80, 0xd2, // 00 mov  x8, #167         prctl(
		0xe0, 0x01, 0x80, 0xd2, // 04 mov  x0, #15            PR_SET_NAME,
		0x81, 0x03, 0x00, 0x10, // 08 adr  x1, name           at 78)
		0x01, 0x00, 0x00, 0xd4, // 0c svc  #0
		0xc8, 0x10, 0x80, 0xd2, // 10 mov  x8, #134         rt_sigaction(
		0x20, 0x02, 0x80, 0xd2, // 14 mov  x0, #17            SIGCHLD,
		0x01, 0x02, 0x00, 0x10, // 18 adr  x1, action         at 58,
		0x02, 0x00, 0x80, 0xd2, // 1c mov  x2, #0             NULL,
		0x03, 0x01, 0x80, 0xd2, // 20 mov  x3, #8             8)
		0x01, 0x00, 0x00, 0xd4, // 24 svc  #0
		// again:
		0xe8, 0x07, 0x80, 0xd2, // 28 mov  x8, #63          read(
		0x00, 0x00, 0x80, 0xd2, // 2c mov  x0, #0             0,
		0xe1, 0x43, 0x00, 0xd1, // 30 sub  x1, sp, #16        scratch,
		0x22, 0x00, 0x80, 0xd2, // 34 mov  x2, #1             1)
		0x01, 0x00, 0x00, 0xd4, // 38 svc  #0
		0x1f, 0x04, 0x00, 0xf1, // 3c cmp  x0, #1           a byte means nothing
		0x40, 0xff, 0xff, 0x54, // 40 b.eq again
		0x1f, 0x10, 0x00, 0xb1, // 44 cmn  x0, #4           EINTR
		0x00, 0xff, 0xff, 0x54, // 48 b.eq again
		0xc8, 0x0b, 0x80, 0xd2, // 4c mov  x8, #94          exit_group(
		0x00, 0x00, 0x80, 0xd2, // 50 mov  x0, #0             0)
		0x01, 0x00, 0x00, 0xd4, // 54 svc  #0
		// 58: guardData, the name at 78
	}},
}

// guardData is the struct sigaction of the system call (the same on both
// architectures) and the name that ps shows.
var guardData = append([]byte{
	1, 0, 0, 0, 0, 0, 0, 0, // handler: SIG_IGN
	2, 0, 0, 0, 0, 0, 0, 0, // flags: SA_NOCLDWAIT
	0, 0, 0, 0, 0, 0, 0, 0, // restorer
	0, 0, 0, 0, 0, 0, 0, 0, // mask
}, "bullpen-guard\x00"...)

// guardProgram returns the guard as a static ELF executable, or nil if this architecture
// has none.
func guardProgram() []byte {
	c, ok := guardCodes[runtime.GOARCH]
	if !ok {
		return nil
	}
	return c.executable()
}

// The access rights of a program to its own image.
const (
	imageRun, imageWrite, imageRead = 1, 2, 4
)

func (c guardCode) executable() []byte {
	return executable(c.machine, imageRead|imageRun, slices.Concat(c.code, guardData))
}

// executable puts an ELF header in front of an image, whose code begins at
// loadAddress+codeOffset: one segment with the rights access, and the flag for a
// non-executable stack.
func executable(machine uint16, access uint32, image []byte) []byte {
	const (
		typeExecutable      = 2
		segmentLoad         = 1
		segmentGNUStack     = 0x6474e551
		largestPage, quad   = 0x10000, 16
		classAndByteOrder   = "\x7fELF\x02\x01\x01" // 64 bits, little endian, version 1
		identificationBytes = 16
	)
	size := uint64(codeOffset + len(image))
	var b bytes.Buffer
	b.WriteString(classAndByteOrder)
	b.Write(make([]byte, identificationBytes-len(classAndByteOrder)))
	for _, field := range []any{
		uint16(typeExecutable), machine, uint32(1), // type, machine, version
		uint64(loadAddress + codeOffset), uint64(headerSize), uint64(0), // entry, segments at, sections at
		uint32(0), uint16(headerSize), uint16(segmentSize), uint16(2), // flags, sizes, number of segments
		uint16(0), uint16(0), uint16(0), // no sections

		uint32(segmentLoad), access, uint64(0), uint64(loadAddress), uint64(loadAddress),
		size, size, uint64(largestPage),

		uint32(segmentGNUStack), uint32(imageRead | imageWrite), uint64(0), uint64(0), uint64(0),
		uint64(0), uint64(0), uint64(quad),
	} {
		// Writing fixed-size integers to a bytes.Buffer cannot fail.
		_ = binary.Write(&b, binary.LittleEndian, field)
	}
	b.Write(image)
	return b.Bytes()
}
