package confine

import (
	"fmt"
	"slices"
	"unsafe"

	"golang.org/x/sys/unix"
)

// A filter is a classic BPF program that the kernel runs for each system call. It finds
// the call's number by binary search. The path is then short for each number, which makes
// both the calls and the installation cheap (the kernel runs the filter for every number
// to record those that are always allowed).

// The offsets in struct seccomp_data.
const (
	dataNumber = 0
	dataArch   = 4
	dataArgs   = 16 // 8 bytes each, the low half first on supported systems
)

// condition holds for a call if its argument has the required value. Only the low 32 bits
// count: the arguments checked here have no more, or no meaning in the rest.
type condition struct {
	arg   int
	op    operation
	value uint32
}

type operation uint8

const (
	anyBit operation = iota // one or more bits of value are set
	equal
	differs
)

// clause denies a call if all of its conditions hold; one without conditions always
// denies.
type clause struct {
	errno      unix.Errno
	conditions []condition
}

// deniedCall is one system call and when it is denied; the first clause whose conditions
// hold decides.
type deniedCall struct {
	name    string // followed in parentheses by what is denied, if not all of it is
	number  uint32
	clauses []clause
}

// interval covers the calls from first up to the next interval.
type interval struct {
	first   uint32
	clauses []clause // nil: allowed
}

// intervals divides the numbers into ranges with the same clauses.
func intervals(calls []deniedCall) ([]interval, error) {
	calls = slices.Clone(calls)
	slices.SortFunc(calls, func(a, b deniedCall) int { return int(a.number) - int(b.number) })
	list := []interval{{}}
	add := func(first uint32, clauses []clause) {
		last := &list[len(list)-1]
		switch {
		case alike(last.clauses, clauses): // extends the interval
		case last.first == first:
			last.clauses = clauses
		default:
			list = append(list, interval{first, clauses})
		}
	}
	for i, c := range calls {
		if i > 0 && calls[i-1].number == c.number {
			return nil, fmt.Errorf("system calls %s and %s have one number", calls[i-1].name, c.name)
		}
		add(c.number, c.clauses)
		if i == len(calls)-1 || calls[i+1].number != c.number+1 {
			add(c.number+1, nil)
		}
	}
	return list, nil
}

// alike reports whether a and b have the same effect.
func alike(a, b []clause) bool {
	return slices.EqualFunc(a, b, func(x, y clause) bool {
		return x.errno == y.errno && slices.Equal(x.conditions, y.conditions)
	})
}

// assembly is a program under construction, whose forward jumps are not resolved.
type assembly struct {
	program []unix.SockFilter
	blocks  [][]clause  // the different decisions
	uses    map[int]use // by the position of the jump
	starts  map[int]int // of the blocks
	err     error
}

// use is a jump to blocks: -1 for another target.
type use struct{ yes, no int }

// buildFilter builds the program that denies calls to programs of the architecture arch.
// For calls of other architectures, and those with a number of at least alien, it reports
// that they do not exist.
func buildFilter(arch, alien uint32, calls []deniedCall) ([]unix.SockFilter, error) {
	list, err := intervals(calls)
	if err != nil {
		return nil, err
	}
	list = append(list, interval{alien, []clause{{errno: unix.ENOSYS}}})
	a := &assembly{uses: map[int]use{}, starts: map[int]int{}, program: []unix.SockFilter{
		load(dataArch),
		jump(unix.BPF_JEQ, arch, 1, 0),
		deny(unix.ENOSYS),
		load(dataNumber),
	}}
	a.search(list)
	for i, clauses := range a.blocks {
		a.starts[i] = len(a.program)
		a.decide(clauses)
	}
	for at, u := range a.uses {
		in := &a.program[at]
		for _, way := range []struct {
			block int
			to    *uint8
		}{{u.yes, &in.Jt}, {u.no, &in.Jf}} {
			if way.block >= 0 {
				*way.to = a.distance(at, a.starts[way.block])
			}
		}
	}
	return a.program, a.err
}

// distance returns how much a conditional jump at the position at must skip.
func (a *assembly) distance(at, to int) uint8 {
	const farthest = 255
	if to-at-1 > farthest {
		a.err = fmt.Errorf("the filter of system calls is too long for a jump over %d instructions", to-at-1)
		return farthest
	}
	return uint8(to - at - 1)
}

// search emits the binary search for the interval of a number; list has at least two.
func (a *assembly) search(list []interval) {
	at, half := len(a.program), len(list)/2
	a.program = append(a.program, jump(unix.BPF_JGE, list[half].first, 0, 0))
	u := use{-1, -1}
	if half == 1 {
		u.no = a.block(list[0].clauses)
	} else {
		a.search(list[:half]) // follows directly
	}
	if len(list)-half == 1 {
		u.yes = a.block(list[half].clauses)
	} else {
		a.program[at].Jt = a.distance(at, len(a.program))
		a.search(list[half:])
	}
	a.uses[at] = u
}

// block returns the number of the block that decides by clauses.
func (a *assembly) block(clauses []clause) int {
	i := slices.IndexFunc(a.blocks, func(b []clause) bool { return alike(b, clauses) })
	if i < 0 {
		i = len(a.blocks)
		a.blocks = append(a.blocks, clauses)
	}
	return i
}

// decide ends the program with the result of the clauses.
func (a *assembly) decide(clauses []clause) {
	for _, c := range clauses {
		a.program = append(a.program, c.program()...)
		if c.conditions == nil {
			return
		}
	}
	a.program = append(a.program, allow())
}

// program returns code that denies a call for which c holds, and continues otherwise.
func (c clause) program() []unix.SockFilter {
	var p []unix.SockFilter
	for i, q := range c.conditions {
		past := uint8(2*(len(c.conditions)-i-1) + 1)
		p = append(p, load(dataArgs+8*uint32(q.arg)))
		switch q.op {
		case anyBit:
			p = append(p, jump(unix.BPF_JSET, q.value, 0, past))
		case equal:
			p = append(p, jump(unix.BPF_JEQ, q.value, 0, past))
		case differs:
			p = append(p, jump(unix.BPF_JEQ, q.value, past, 0))
		}
	}
	return append(p, deny(c.errno))
}

func load(offset uint32) unix.SockFilter {
	return unix.SockFilter{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: offset}
}

func jump(op uint16, value uint32, yes, no uint8) unix.SockFilter {
	return unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_K | op, Jt: yes, Jf: no, K: value}
}

func deny(errno unix.Errno) unix.SockFilter {
	return unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ERRNO | uint32(errno)}
}

func allow() unix.SockFilter {
	return unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW}
}

// installFilter applies program to the calling thread. It needs no_new_privs.
func installFilter(program []unix.SockFilter) error {
	p := unix.SockFprog{Len: uint16(len(program)), Filter: &program[0]}
	if _, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, 0, uintptr(unsafe.Pointer(&p))); errno != 0 {
		return fmt.Errorf("seccomp filter: %w", errno)
	}
	return nil
}

// filterBytes returns program in its memory layout.
func filterBytes(program []unix.SockFilter) []byte {
	if len(program) == 0 {
		return nil
	}
	return slices.Clone(unsafe.Slice((*byte)(unsafe.Pointer(&program[0])), len(program)*int(unsafe.Sizeof(program[0]))))
}
