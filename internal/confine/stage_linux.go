package confine

import (
	"encoding/binary"
	"fmt"
	"runtime"

	"golang.org/x/sys/unix"
)

// address is an address in the memory of a stage; 0 is none.
type address uint64

// script is a list of system calls for a stage, under construction.
type script struct {
	image []byte // code, words and the memory of the calls
	ops   []op
	// news and pidfd are where a child's number goes, and the control message with its
	// pidfd.
	news, pidfd address
}

// op is one system call of a script.
type op struct {
	what   string // the call, for the text of an error
	number uintptr
	args   [6]uint64
	store  address // where to store its result, in 4 bytes
	// unlessZero is the op to run after a result other than 0, onError the one after an
	// error: without onError the stage reports the error and ends. Both count from 1. 0
	// stands for the next op in unlessZero, and for none in onError.
	unlessZero, onError int
}

const (
	stageCodeSize = 0x88
	stageWords    = 16
	opSize        = 80
)

// newScript returns an empty script, or nil if this architecture has no stage.
func newScript() *script {
	c, ok := stageCodes[runtime.GOARCH]
	if !ok {
		return nil
	}
	return &script{image: append(c.code[:len(c.code):len(c.code)], make([]byte, stageWords)...)}
}

// next returns the address of what is next added to the image.
func (s *script) next() address { return loadAddress + codeOffset + address(len(s.image)) }

// memory adds b to the image.
func (s *script) memory(b []byte) address {
	const word = 8
	s.image = append(s.image, make([]byte, (word-len(s.image)%word)%word)...)
	at := s.next()
	s.image = append(s.image, b...)
	return at
}

// text adds a string to the image, in the form of system calls.
func (s *script) text(t string) uint64 { return uint64(s.memory(append([]byte(t), 0))) }

// texts adds a list of strings to the image, in the form of execve.
func (s *script) texts(list []string) uint64 {
	var all []byte
	for _, t := range list {
		all = binary.NativeEndian.AppendUint64(all, s.text(t))
	}
	return uint64(s.memory(binary.NativeEndian.AppendUint64(all, 0)))
}

// call adds a system call. The caller may change it until the next one is added.
func (s *script) call(what string, number uintptr, args ...uint64) *op {
	o := op{what: what, number: number}
	copy(o.args[:], args)
	s.ops = append(s.ops, o)
	return &s.ops[len(s.ops)-1]
}

// try adds a system call whose error is ignored.
func (s *script) try(what string, number uintptr, args ...uint64) {
	o := s.call(what, number, args...)
	o.onError = len(s.ops) + 1
}

// program returns the script as an executable that reports errors to a descriptor.
func (s *script) program(errors int) []byte {
	s.memory(nil)
	first := s.next()
	offset := func(n int) uint64 {
		if n == 0 {
			return 0
		}
		return uint64(first) + uint64(n-1)*opSize
	}
	image := s.image[:len(s.image):len(s.image)]
	for _, o := range s.ops {
		image = binary.NativeEndian.AppendUint64(image, uint64(o.number))
		for _, a := range o.args {
			image = binary.NativeEndian.AppendUint64(image, a)
		}
		for _, a := range []uint64{uint64(o.store), offset(o.unlessZero), offset(o.onError)} {
			image = binary.NativeEndian.AppendUint64(image, a)
		}
	}
	binary.NativeEndian.PutUint64(image[stageCodeSize:], uint64(first))
	binary.NativeEndian.PutUint64(image[stageCodeSize+8:], uint64(errors))
	return executable(stageCodes[runtime.GOARCH].machine, imageRead|imageWrite|imageRun, image)
}

// stageErrorSize is the size of a stage's error report.
const stageErrorSize = 16

// failure decodes a stage's error report.
func (s *script) failure(b []byte) (o op, err error) {
	errno := unix.Errno(-int64(binary.NativeEndian.Uint64(b)))
	s.memory(nil)
	at := (address(binary.NativeEndian.Uint64(b[8:])) - s.next()) / opSize
	if at >= address(len(s.ops)) {
		return op{}, fmt.Errorf("the stage failed at an unknown step: %w", errno)
	}
	return s.ops[at], errno
}
