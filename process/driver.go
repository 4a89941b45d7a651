package process

import (
	"math"
	"time"

	"github.com/bullpen-run/bullpen"
	"github.com/bullpen-run/bullpen/internal/confine"
	"github.com/bullpen-run/bullpen/internal/wire"
)

// driver is the host's side of what one worker speaks: it opens the channel, finds out
// when the worker is ready, gives it tasks, asks it to end one, passes on its answers,
// and asks it to leave. The pool decides everything else: which worker gets which task,
// deadlines, what becomes of the tasks of a dead worker, how many workers there are,
// their limits and their sandbox. All that differs between protocols is behind this
// interface and in the [traits].
//
// A driver reports to the pool:
//
//	worker.ready    the worker takes tasks
//	Pool.answered   results, errors, and tasks that come back unstarted
//	Pool.hungUp     the worker has violated the protocol or closed its end
//	Pool.flag       the worker has to be replaced
//
// It sets concurrency and recallable of its worker before that is ready, and paused while
// it must get no task, all under Pool.mu. Tasks that it leaves in worker.pending count as
// not started.
type driver interface {
	// launch starts the worker, which the pool has just added. Pool.mu is held.
	launch(now int64)
	// open opens the pipes of the process and the channel to it, and completes spec.
	open(spec *confine.Spec, made *pipes) error
	// converse speaks with the process, which has started, until nothing more can come
	// from it.
	converse()
	// ended is called when the process has been reaped. converse must then return soon.
	ended()
	// close frees what the driver holds, after converse has returned and the fate of all
	// tasks is decided.
	close()

	// check returns why this worker cannot take t. Pool.mu is held.
	check(t *bullpen.Task) error
	// send sends the pending tasks, without waiting for the worker. The caller has
	// claimed the worker; send ends the claim when there is nothing left to send.
	send()
	// forget frees what the task with that number, which has a payload of
	// protocol.ArenaMin or more, has used. Pool.mu is held.
	forget(number uint32)
	// release frees the body of an answer whose Taken is not 0. It has been copied.
	release(taken uint64)

	// cancel asks the worker to end c, which has begun, because of c.cause. It reports
	// whether that is possible; else the worker is killed now. Pool.mu is held.
	cancel(c *call) bool
	// takeBack takes back the tasks from number first on, or all if first is 0, that
	// have not begun. It does nothing where that is impossible. Pool.mu is held.
	takeBack(first uint32, now int64)
	// returned reports whether a task that comes back was taken back already. Pool.mu is
	// held, and the worker paused.
	returned(number uint32) bool
	// resume is called after answers of a paused worker, which it may end the pause of.
	// Pool.mu is held.
	resume()

	// runs returns the number of the task that the worker has begun last, as far as is
	// known, and whether it has ended already. Pool.mu is held.
	runs() (number uint32, over bool)
	// tend does what is due at this time. Pool.mu is held.
	tend(now int64)
	// verdict returns how far c had come, which the worker may have read before it died.
	// Pool.mu is held.
	verdict(c *call) verdict
	// leave asks the worker, which has no task, to exit. Pool.mu is held.
	leave()
}

// failure is what a worker says of an error.
type failure = wire.Failure

// base does for drivers what most of them have in common: a process for many tasks,
// which takes any task, and from which nothing can be taken back.
type base struct{ w *worker }

// launch starts the process on a goroutine of its own. It ends when the process has
// ended; settle waits for it.
func (b *base) launch(int64) { go b.w.run() }

func (b *base) check(*bullpen.Task) error        { return nil }
func (b *base) forget(uint32)                    {}
func (b *base) release(uint64)                   {}
func (b *base) cancel(*call) bool                { return false }
func (b *base) takeBack(uint32, int64)           {}
func (b *base) returned(uint32) bool             { return false }
func (b *base) resume()                          {}
func (b *base) runs() (number uint32, over bool) { return b.w.oldest, false }
func (b *base) tend(int64)                       {}

// traits are what a pool must know of the protocol that its workers speak, before there
// is a worker.
//
//	          frames    lines     exec    lambda, http
//	most      any       any       1       1, or the worker's concurrency
//	ahead     48 KiB    48 KiB    any     any
//	perTask   no        no        yes     no
//	exact     no        no        yes     no
//	greets    yes       no        no      yes
//	timed     yes       no        no      yes, by the driver
//	quiet     any       500 ms    any     any
//	deaths    3         10        none    3
//	network   no        no        no      yes
//	shares    yes       no        no      yes
//	output    64 MiB    64 MiB    64 MiB  6 MiB, 64 MiB
//
// Whether tasks can be taken back is a trait of a worker: see worker.recallable. Those of
// frames can if the worker uses the shared page.
type traits struct {
	name    string
	drive   func(*worker) driver
	check   func(*Pool, *call) error // returns why no worker could take a task; nil if there is nothing to check
	most    int                      // tasks assigned to a worker; 0 for what the window allows
	ahead   int                      // payload bytes assigned to a worker above which it gets no more tasks
	perTask bool                     // each task has a process of its own, and a worker is a place for one
	exact   bool                     // no task is ever lost
	loss    string                   // which tasks are lost
	greets  bool                     // a worker reports that it is ready; else its first answer shows it
	timed   bool                     // answers have a run time
	quiet   time.Duration            // how long a task may be unanswered before driver.tend must look
	deaths  int                      // workers that may end with a task assigned that has not begun, by their own account
	network bool                     // a worker is reached over the network
	shares  bool                     // a call may have several tasks as its input, see Config.Batch
	output  int                      // largest result in bytes, by default; 0 means DefaultOutput
}

// lostAnswers is what a worker with a connection may lose.
const lostAnswers = "a task that had ended when its worker died, before its answer was read, counts as crashed"

// protocols are the traits of each protocol.
var protocols = [...]traits{
	Frames: {
		name: "frames", drive: driveFrames, check: checkFrame, ahead: pipeRoom, greets: true, timed: true, deaths: maxDeaths, shares: true,
		loss: "a task that had ended when its worker died, before its answer was sent, is lost",
	},
	// The kernel reports which lines a filter has not read, and filters exit by
	// themselves: hence more deaths.
	Lines: {
		name: "lines", drive: driveLines, check: checkLine, ahead: pipeRoom, quiet: silentFor, deaths: maxReplays,
		loss: "lines that a dead worker had read and not answered are lost",
	},
	Exec: {name: "exec", drive: driveExec, most: 1, ahead: math.MaxInt, perTask: true, exact: true},
	Lambda: {
		name: "lambda", drive: driveLambda, most: 1, ahead: math.MaxInt, greets: true, timed: true, deaths: maxDeaths, network: true, shares: true, output: 6 << 20,
		loss: lostAnswers,
	},
	HTTP: {
		name: "http", drive: driveHTTP, most: 1, ahead: math.MaxInt, greets: true, timed: true, deaths: maxDeaths, network: true, shares: true,
		loss: lostAnswers,
	},
}
