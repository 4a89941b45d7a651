package confine

import (
	"encoding/binary"
	"fmt"
	"runtime"

	"golang.org/x/sys/unix"
)

// address is a place in the memory of a stage; 0 is none.
type address uint64

// script is a list of system calls for a stage under construction.
type script struct {
	image []byte // code, words and what the calls need
	ops   []op
	// news and pidfd are where the number of a child goes, and the control
	// message with its pidfd.
	news, pidfd address
}

// op is one system call of a script.
type op struct {
	what   string // for people who read that it failed
	number uintptr
	args   [6]uint64
	store  address // its result goes there, in 4 bytes
	// unlessZero is the op that comes after a result other than 0, onError the
	// one after an error: without it the stage tells of the error and ends. Both
	// count from 1; 0 stands for the next one, and for none.
	unlessZero, onError int
}

const (
	stageCodeSize = 0x88
	stageWords    = 16
	opSize        = 80
)

// newScript makes an empty one, or nil where this architecture has no stage.
func newScript() *script {
	c, ok := stageCodes[runtime.GOARCH]
	if !ok {
		return nil
	}
	return &script{image: append(c.code[:len(c.code):len(c.code)], make([]byte, stageWords)...)}
}

// next is the address of what is put into the image next.
func (s *script) next() address { return loadAddress + codeOffset + address(len(s.image)) }

// memory puts b into the image.
func (s *script) memory(b []byte) address {
	const word = 8
	s.image = append(s.image, make([]byte, (word-len(s.image)%word)%word)...)
	at := s.next()
	s.image = append(s.image, b...)
	return at
}

// text puts a string into the image, as system calls take it.
func (s *script) text(t string) uint64 { return uint64(s.memory(append([]byte(t), 0))) }

// texts puts a list of strings into the image, as execve takes it.
func (s *script) texts(list []string) uint64 {
	var all []byte
	for _, t := range list {
		all = binary.NativeEndian.AppendUint64(all, s.text(t))
	}
	return uint64(s.memory(binary.NativeEndian.AppendUint64(all, 0)))
}

// call adds a system call, which may be changed as long as no other is added.
func (s *script) call(what string, number uintptr, args ...uint64) *op {
	o := op{what: what, number: number}
	copy(o.args[:], args)
	s.ops = append(s.ops, o)
	return &s.ops[len(s.ops)-1]
}

// try adds a system call whose error does not matter.
func (s *script) try(what string, number uintptr, args ...uint64) {
	o := s.call(what, number, args...)
	o.onError = len(s.ops) + 1
}

// program is the script as an executable that tells of errors to a descriptor.
func (s *script) program(errors int) []byte {
	s.memory(nil)
	first := s.next()
	place := func(n int) uint64 {
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
		for _, a := range []uint64{uint64(o.store), place(o.unlessZero), place(o.onError)} {
			image = binary.NativeEndian.AppendUint64(image, a)
		}
	}
	binary.NativeEndian.PutUint64(image[stageCodeSize:], uint64(first))
	binary.NativeEndian.PutUint64(image[stageCodeSize+8:], uint64(errors))
	return executable(stageCodes[runtime.GOARCH].machine, imageRead|imageWrite|imageRun, image)
}

// stageErrorSize is how much a stage tells of an error.
const stageErrorSize = 16

// failure is what a stage has told in b.
func (s *script) failure(b []byte) (o op, err error) {
	errno := unix.Errno(-int64(binary.NativeEndian.Uint64(b)))
	s.memory(nil)
	at := (address(binary.NativeEndian.Uint64(b[8:])) - s.next()) / opSize
	if at >= address(len(s.ops)) {
		return op{}, fmt.Errorf("the stage failed in an unknown place: %w", errno)
	}
	return s.ops[at], errno
}
