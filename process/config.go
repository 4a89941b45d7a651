package process

import (
	"fmt"
	"log/slog"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/bullpen-run/bullpen"
)

// Protocol says how a pool talks to its workers.
type Protocol uint8

const (
	// Frames is Bullpen's own protocol (protocol/SPEC.md), spoken by the worker
	// SDKs.
	Frames Protocol = iota
	// Lines writes each payload as a line to the worker's standard input and
	// takes one line of its standard output as the result.
	Lines
	// Exec starts one process a task: payload on standard input, result on
	// standard output, failed when the exit status is not 0. An argument {} of
	// the command, or {} within one, stands for the payload; then standard
	// input is empty.
	Exec
)

var protocolNames = []string{Frames: "frames", Lines: "lines", Exec: "exec"}

// String returns the word for p.
func (p Protocol) String() string {
	if int(p) < len(protocolNames) {
		return protocolNames[p]
	}
	return fmt.Sprintf("protocol(%d)", uint8(p))
}

// ParseProtocol returns the protocol that word names.
func ParseProtocol(word string) (Protocol, error) {
	if i := slices.Index(protocolNames, word); i >= 0 {
		return Protocol(i), nil
	}
	return 0, fmt.Errorf("unknown protocol %q: use %s", word, strings.Join(protocolNames, ", "))
}

// Overflow says what Submit does when the queue is full.
type Overflow uint8

const (
	// Block waits for a place until the caller's context ends.
	Block Overflow = iota
	// Reject returns bullpen.ErrOverloaded at once.
	Reject
	// DropOldest takes the place of the task that waits longest, which ends
	// with bullpen.ErrOverloaded.
	DropOldest
)

// Defaults of a Config.
const (
	DefaultIdle         = 10 * time.Second
	DefaultQueue        = 1024
	DefaultGrace        = 500 * time.Millisecond
	DefaultCloseGrace   = 5 * time.Second
	DefaultStartTimeout = 30 * time.Second
	DefaultPing         = 15 * time.Second
	// DefaultNice is what "below normal" is as a nice value (nice(2)).
	DefaultNice   = 10
	DefaultOutput = 64 << 20
	DefaultArena  = 64 << 20
	// MaxWindow is the most tasks that a worker has in hand by itself. It must be
	// a power of two.
	MaxWindow = 128
)

// DefaultOOMScore is what a worker has above the host.
const DefaultOOMScore = 500

// IOPriority orders the use of disks, ioprio_set(2).
type IOPriority uint8

const (
	// IONormal leaves the priority to the kernel, which follows Nice.
	IONormal IOPriority = iota
	// IOLow is the lowest of those that get their share.
	IOLow
	// IOIdle gets what nobody else wants.
	IOIdle
)

// HostNice gives workers the priority of the host.
const HostNice = math.MinInt

// Config says how a pool works. Only Command is needed; [Pool.Config] tells what
// the rest became.
type Config struct {
	// Name of the pool in logs and events; the command's name unless set.
	Name string
	// Command is the program of the workers and its arguments. The program is
	// looked up once, in Dir or the host's PATH.
	Command []string
	// Protocol that the workers speak.
	Protocol Protocol
	// Arguments, with Exec, makes the arguments of the process for a task, where
	// those of Command, with the payload in the place of {}, are not enough. It
	// returns what stands behind the program, and whether the payload goes to
	// standard input. slot is that of the process: from 1 to Max, and no two that
	// run at a time have the same. It must be quick, and safe for concurrent use.
	// Nil means those of Command.
	Arguments func(t bullpen.Task, slot int) (args []string, stdin bool)

	// Min workers are started by New and kept; 0 starts the first with the first
	// task. Max is the most at a time; 0 means as many as there are
	// processors for this process (runtime.GOMAXPROCS), and at least Min.
	Min, Max int
	// Spare workers are kept warm beyond those that are busy, within Max.
	Spare int
	// Idle is how long a worker beyond Min and Spare stays without work;
	// 0 means 10 s, negative for ever.
	Idle time.Duration
	// Queue is the most tasks that wait; 0 means 1024. Tasks that a worker has
	// in hand do not count.
	Queue int
	// Overflow is what Submit does when the queue is full.
	Overflow Overflow
	// Window is the most tasks in hand of one worker; 0 means 1 to 128, chosen
	// from the measured run time. A worker that runs several handlers at a
	// time has at least so many.
	Window int

	// Limits of every task that has none of its own. Output is 64 MiB unless
	// set. Memory and CPU bound each worker with all that it starts (with Exec
	// each process): they are kept by control groups of the kernel, v2 or v1. Where
	// there are none, CPU is refused, and Memory is watched instead
	// ([Pool.Guarantees] tells). A worker that hits Memory is killed, and its
	// task ends with the outcome memory.
	Limits bullpen.Limits
	// PIDs is the most processes and threads of one worker; 0 means no bound. It
	// needs a control group.
	PIDs int
	// Weight is the share of the workers in the time of scarce processors, 1 to
	// 10000, where 100 is what their Nice gives them; 0 means 100. It needs
	// control groups.
	Weight int
	// Grace is the time between asking a task to end and killing its worker;
	// 0 means 500 ms. Workers that cannot be asked are killed at once.
	Grace time.Duration
	// CloseGrace bounds Close, and Drain and Stop after their context has
	// ended; 0 means 5 s.
	CloseGrace time.Duration
	// StartTimeout bounds the time from start to ready; 0 means 30 s.
	StartTimeout time.Duration
	// Ping is how often an idle worker is asked whether it lives, with Frames;
	// 0 means 15 s, negative never. One that does not answer in the same time is
	// replaced.
	Ping time.Duration
	// Recycle says when workers are replaced by plan.
	Recycle Recycle
	// Budget bounds what the workers of several pools use together; nil means
	// that there is no such bound. New fails when Min workers, or one where Min is
	// 0, cannot fit beside what the other pools must have.
	Budget *Budget
	// Need is the memory in bytes that one worker is expected to use, with which
	// it counts in Budget from before its start. 0 means Limits.Memory, or where
	// that is 0 too, the size of the largest worker that the pool has had lately,
	// and 64 MiB before any was measured.
	Need int64

	// Env is the environment of the workers, by allow-list: "NAME=value" sets,
	// "NAME" passes the host's value on. PATH, HOME, LANG, TMPDIR and TZ are
	// always passed on unless set here.
	Env []string
	// Dir is the working directory; empty means the host's.
	Dir string
	// Nice is the priority of workers as a nice value; 0 means 10, below
	// normal, so that the host stays quick. HostNice means the host's own.
	Nice int
	// CPUs are the processors that workers may use; empty means all.
	CPUs []int
	// IO is the priority of workers for disks.
	IO IOPriority
	// OOMScore is added to the score by which the kernel chooses what to kill
	// when the machine is out of memory, up to 1000: the worker dies and not the
	// host. 0 means 500; negative leaves it as it is.
	OOMScore int
	// Sandbox says what workers are kept from.
	Sandbox Sandbox
	// Preload names Python modules. Then one process imports them once, and
	// workers are forked from it instead of started, many times faster; each has
	// its own limits, sandbox and temporary folder all the same. Command must
	// be a Python interpreter with a script, -m or -c. The modules must not start
	// threads. Linux only. Empty means none.
	Preload []string
	// Arena is the shared memory of one worker in bytes, half for requests and
	// half for replies; what is not touched costs nothing. 0 means 64 MiB,
	// negative none.
	Arena int
	// NUL separates lines by NUL bytes, with the protocol Lines.
	NUL bool

	// Logger gets the pool's events and the workers' output; nil means none.
	Logger *slog.Logger
	// LogRate is the most bytes a second of one worker's output that Logger gets; of
	// what is more a line a second says how much was left out. A worker that was quiet
	// may log four seconds of it at once. Observers get all. 0 means no bound.
	LogRate int64
}

// Recycle says when a worker is replaced by plan: its successor is started
// first, its tasks are finished. Zero fields never replace. Each bound is
// varied by up to Jitter so that workers of one age do not leave together.
type Recycle struct {
	// Tasks is the number of tasks after which a worker is replaced.
	Tasks int
	// Age is the time after which a worker is replaced.
	Age time.Duration
	// Memory is the resident size in bytes above which a worker is replaced,
	// seen when it idles, largest first. It is soft: a task may exceed it.
	Memory int64
	// Jitter is the largest part by which bounds vary, 0 to 1; 0 means 0.1,
	// negative none.
	Jitter float64
}
