package process

import (
	"fmt"
	"log/slog"
	"math"
	"strings"
	"time"

	"github.com/bullpen-run/bullpen"
)

// Protocol is how a pool talks to its workers.
type Protocol uint8

const (
	// Frames is Bullpen's own protocol (protocol/SPEC.md), used by the worker SDKs.
	Frames Protocol = iota
	// Lines writes each payload as a line to the worker's standard input and
	// takes one line of its standard output as the result.
	Lines
	// Exec starts one process per task: the payload is its standard input, its standard
	// output is the result, and an exit status other than 0 means failed. If an
	// argument of Command is or contains {}, the payload replaces {} and standard input
	// is empty.
	Exec
	// Lambda is the AWS Lambda Runtime API: each payload is the event of an invocation,
	// and the function's answer is the result. Programs that use a runtime client of AWS
	// run unmodified, see [LambdaWorker].
	Lambda
	// HTTP posts each payload to a web server, which the worker runs on the port in the
	// variable PORT. The body of its response is the result, see [HTTPWorker].
	HTTP
)

// String returns the name of p.
func (p Protocol) String() string {
	if int(p) < len(protocols) {
		return protocols[p].name
	}
	return fmt.Sprintf("protocol(%d)", uint8(p))
}

// ParseProtocol returns the protocol with the name word.
func ParseProtocol(word string) (Protocol, error) {
	var names []string
	for i, t := range protocols {
		if t.name == word {
			return Protocol(i), nil
		}
		names = append(names, t.name)
	}
	return 0, fmt.Errorf("unknown protocol %q: use %s", word, strings.Join(names, ", "))
}

// Overflow is what Submit does when the queue is full.
type Overflow uint8

const (
	// Block waits for a place in the queue until the caller's context ends.
	Block Overflow = iota
	// Reject returns bullpen.ErrOverloaded immediately.
	Reject
	// DropOldest drops the task that has waited longest, which ends with
	// bullpen.ErrOverloaded, and queues the new one.
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
	// DefaultNice is a nice value below the normal priority (nice(2)).
	DefaultNice   = 10
	DefaultOutput = 64 << 20
	DefaultArena  = 64 << 20
	// MaxWindow is the most tasks that the pool assigns to one worker when it chooses
	// the number itself. It must be a power of two.
	MaxWindow = 128
)

// DefaultOOMScore is how far the OOM score of a worker is above that of the host.
const DefaultOOMScore = 500

// IOPriority is a priority for disk access, see ioprio_set(2).
type IOPriority uint8

const (
	// IONormal lets the kernel derive the priority from Nice.
	IONormal IOPriority = iota
	// IOLow is the lowest priority that is still guaranteed a share.
	IOLow
	// IOIdle uses the disk only when no other process does.
	IOIdle
)

// HostNice runs workers at the priority of the host.
const HostNice = math.MinInt

// Config configures a pool. Only Command is required; [Pool.Config] returns the
// configuration with its defaults filled in.
type Config struct {
	// Name is the name of the pool in logs and events; empty means the base name of the
	// command.
	Name string
	// Command is the program of the workers and its arguments. New looks the program up
	// once, in Dir or the host's PATH.
	Command []string
	// Protocol is the protocol that the workers speak.
	Protocol Protocol
	// Arguments returns the arguments of the process for a task, without the program,
	// and whether the payload goes to standard input. It is for Exec, where replacing
	// {} in Command is not enough. slot is a number from 1 to Max; processes that run
	// at the same time have different slots. Arguments must be quick and safe for
	// concurrent use. Nil means the arguments in Command.
	Arguments func(t bullpen.Task, slot int) (args []string, stdin bool)

	// Min is the number of workers that New starts and the pool keeps; with 0 the first
	// worker starts with the first task. Max is the most workers at a time; 0 means
	// runtime.GOMAXPROCS, or Min if that is larger.
	Min, Max int
	// Spare is the number of idle workers to keep ready beyond the busy ones, within
	// Max.
	Spare int
	// Idle is how long an idle worker beyond Min and Spare is kept; 0 means 10 s,
	// negative means forever.
	Idle time.Duration
	// Queue is the most tasks that wait; 0 means 1024. Tasks assigned to a worker do
	// not count.
	Queue int
	// Overflow is what Submit does when the queue is full.
	Overflow Overflow
	// Window is the most tasks assigned to one worker at a time. 0 means 1 to 128,
	// chosen from the measured run time. For a worker that runs several handlers at a
	// time it is at least their number.
	Window int

	// Concurrency is the most tasks that one worker runs at a time, with HTTP and Lambda; 0
	// means 1. A worker that speaks Frames reports its own.
	Concurrency int
	// Batch lets tasks share calls.
	Batch Batch
	// HTTP is for workers that are web servers, Lambda for functions of AWS Lambda.
	HTTP   HTTPWorker
	Lambda LambdaWorker

	// Limits apply to every task that has none of its own. Output defaults to 64 MiB, and
	// with Lambda to 6 MiB, as at AWS.
	// Memory and CPU bound each worker together with all that it starts (with Exec each
	// process), enforced by the kernel's control groups, v2 or v1. Without control
	// groups, New refuses CPU, and the pool watches Memory instead ([Pool.Guarantees]
	// reports it). A worker that reaches Memory is killed, and its task ends with the
	// outcome memory.
	Limits bullpen.Limits
	// PIDs is the most processes and threads of one worker; 0 means no bound. It
	// requires a control group.
	PIDs int
	// Weight is the workers' share of scarce processors, 1 to 10000, where 100 is the
	// share that their Nice gives them; 0 means 100. It requires control groups.
	Weight int
	// Grace is the time between asking a task to end and killing its worker; 0 means
	// 500 ms. Workers that cannot be asked are killed immediately.
	Grace time.Duration
	// CloseGrace bounds Close, and Drain and Stop after their context has
	// ended; 0 means 5 s.
	CloseGrace time.Duration
	// StartTimeout bounds the time from the start of a worker until it is ready; 0
	// means 30 s.
	StartTimeout time.Duration
	// Ping is the interval at which idle workers are pinged, with Frames; 0 means 15 s,
	// negative means never. A worker that does not answer within one interval is
	// replaced.
	Ping time.Duration
	// Recycle configures the planned replacement of workers.
	Recycle Recycle
	// Budget bounds what the workers of several pools use together; nil means no such
	// bound. New fails when Min workers, or one if Min is 0, do not fit beside the
	// workers that the other pools must have.
	Budget *Budget
	// Need is the memory in bytes that one worker is expected to use. A worker counts
	// in Budget with Need from before its start. 0 means Limits.Memory; if that is 0
	// too, the recently measured size of the largest worker of the pool, and 64 MiB
	// until one was measured.
	Need int64

	// Env is the environment of the workers, an allow-list: "NAME=value" sets a
	// variable, "NAME" passes the host's value on. PATH, HOME, LANG, TMPDIR and TZ are
	// always passed on unless set here.
	Env []string
	// Dir is the working directory; empty means that of the host.
	Dir string
	// Nice is the priority of workers as a nice value; 0 means 10, which is below
	// normal and keeps the host responsive. HostNice means the host's own.
	Nice int
	// CPUs are the processors that workers may use; empty means all.
	CPUs []int
	// IO is the disk priority of workers.
	IO IOPriority
	// OOMScore is added to the score by which the kernel chooses what to kill when the
	// machine is out of memory, up to 1000, so that a worker dies and not the host. 0
	// means 500; negative leaves the score unchanged.
	OOMScore int
	// Sandbox restricts what workers can reach.
	Sandbox Sandbox
	// Preload names Python modules. One process imports them once, and workers are
	// forked from it, which is many times faster than starting them. Each worker still
	// has its own limits, sandbox and temporary folder. Command must be a Python
	// interpreter with a script, -m or -c. The modules must not start threads. Linux
	// only. Empty means none.
	Preload []string
	// Arena is the size of the memory that a worker shares with the host, in bytes:
	// half for requests and half for replies. Pages that are never touched cost
	// nothing. 0 means 64 MiB, negative means none.
	Arena int
	// NUL separates lines by NUL bytes instead of line feeds, with the protocol Lines.
	NUL bool

	// Logger receives the pool's events and the workers' output; nil means none.
	Logger *slog.Logger
	// LogRate is the most bytes per second of one worker's output that Logger receives.
	// Lines above it are dropped, and one line per second logs how many. A worker that
	// was quiet may log four seconds' worth at once. Observers receive all lines. 0
	// means no bound.
	LogRate int64
}

// Recycle configures the planned replacement of workers. The successor starts first,
// and the old worker finishes its tasks. A zero field never replaces. Each bound varies
// by up to Jitter, so that workers of the same age are not replaced together.
type Recycle struct {
	// Tasks is the number of tasks after which a worker is replaced.
	Tasks int
	// Age is the time after which a worker is replaced.
	Age time.Duration
	// Memory is the resident size in bytes above which a worker is replaced. It is
	// checked when the worker is idle, and the largest worker is replaced first. It is
	// a soft bound: a task may exceed it.
	Memory int64
	// Jitter is the largest fraction by which bounds vary, 0 to 1; 0 means 0.1,
	// negative means none.
	Jitter float64
}
