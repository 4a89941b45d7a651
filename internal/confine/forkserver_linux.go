package confine

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Server is a process that has loaded what its children need and forks them on request.
// The children are children of the host, like those of a Spawner: the host waits for them
// itself, and the end of the server does not affect them. All methods are safe for
// concurrent use.
type Server struct {
	spawner  *Spawner
	child    *Child
	name     string // of the process, and of children that have not reported, in /proc/PID/comm
	path     string
	dir      string
	patience time.Duration
	conn     *os.File // nonblocking packet socket
	raw      syscall.RawConn
	ready    chan error    // holds 1: the result of the preparations
	dead     chan struct{} // closed when the process is reaped and all its children are known
	done     chan struct{} // closed when no goroutine reads conn

	sending   sync.RWMutex   // read-held while the Spawner's descriptors are used; write-held once, at the end
	receiving sync.Mutex     // held from receiving a message until it is handled
	buffer    []byte         // guarded by receiving
	strays    sync.WaitGroup // goroutines waiting for the ends of unwanted children

	mu     sync.Mutex
	forks  map[uint32]*birth // those for which a further message may come; guarded by mu
	open   int               // how many are not settled; guarded by mu
	last   uint32            // number of the latest; guarded by mu
	gone   error             // why nothing can be started; guarded by mu
	buried bool              // dead is closed; guarded by mu
}

// birth is one Start in progress.
type birth struct {
	id       uint32
	born     chan struct{} // closed when child is set
	settled  chan struct{} // closed when err is set: child runs its program, or never will
	child    *Child        // written before born is closed, under Server.receiving
	release  func()        // nil: nothing to release; written before the request is sent
	err      error         // written before settled is closed
	given    bool          // Server.mu; settled is closed or about to be
	reported bool          // Server.mu; the server has reported the child
}

// StartServer starts spec as a fork server and returns when the server reports that it is
// prepared, or why it cannot be. That takes at most patience, or until ctx ends; each
// later start takes at most patience. The program gets a socket behind its Files, which
// [ServerVariable] describes. It runs with the Profile, but outside of Strict, which each
// child enters by itself. The caller must call [Server.Close].
func (s *Spawner) StartServer(ctx context.Context, spec Spec, patience time.Duration) (*Server, error) {
	spec, err := spec.complete()
	if err != nil {
		return nil, err
	}
	dir := spec.Dir
	if dir == "" {
		dir = "."
	}
	if dir, err = filepath.Abs(dir); err != nil {
		return nil, fmt.Errorf("confine: the working folder: %w", err)
	}
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("confine: socketpair for a fork server: %w", err)
	}
	theirs := os.NewFile(uintptr(pair[1]), "fork server's end")
	defer theirs.Close()
	_ = unix.SetNonblock(pair[0], true) // cannot fail on a descriptor just made
	v := &Server{
		spawner: s, name: fmt.Sprintf("zygote-%08x", rand.Uint32()), path: spec.Path, dir: dir, patience: patience,
		conn: os.NewFile(uintptr(pair[0]), "host's end"), ready: make(chan error, 1),
		dead: make(chan struct{}), done: make(chan struct{}), forks: make(map[uint32]*birth),
		buffer: make([]byte, wireReplyHead+wireText),
	}
	if v.raw, err = v.conn.SyscallConn(); err == nil {
		spec.Env = append(append([]string{}, spec.Env...), fmt.Sprintf("%s=v1,fd=%d,name=%s", ServerVariable, len(spec.Files), v.name))
		spec.Files = append(append([]*os.File{}, spec.Files...), theirs)
		v.child, err = s.begin(&start{spec: spec, unconfined: true})
	}
	if err != nil {
		v.conn.Close()
		return nil, err
	}
	// Both end with the process; Close waits for them.
	go v.read()
	go v.watch()
	if err := v.prepared(ctx, s.enlist(v)); err != nil {
		return nil, err
	}
	return v, nil
}

// prepared waits until the server is ready, unless err is set already, and ends a server
// that cannot be used.
func (v *Server) prepared(ctx context.Context, err error) error {
	if err == nil {
		timer := time.NewTimer(v.patience)
		defer timer.Stop()
		select {
		case err = <-v.ready:
		case <-timer.C:
			err = fmt.Errorf("confine: the fork server is not ready after %v: %w", v.patience, os.ErrDeadlineExceeded)
		case <-ctx.Done():
			err = fmt.Errorf("confine: the fork server was not ready: %w", context.Cause(ctx))
		}
	}
	if err != nil {
		_ = v.child.Kill() // it may have ended by itself
		return errors.Join(err, v.Close())
	}
	return nil
}

// Child returns the server's own process, to watch and to kill. The Server waits for it;
// other callers may wait too.
func (v *Server) Child() *Child { return v.child }

// Gone returns a channel that is closed when the server has ended, for whatever reason.
func (v *Server) Gone() <-chan struct{} { return v.dead }

// Start makes the server fork a child, and returns when the child's program begins or
// could not begin. It uses these fields of spec: Args, which follow the interpreter and
// its options in a command; Env; Dir (empty: the server's); and up to 63 Files, as
// [Spawner.Start] does. It ignores Path. The caller must call [Child.Wait]. An error with
// [ErrServerGone] means that the server is no longer usable. Start takes about a
// millisecond, for a third of which the server is busy.
func (v *Server) Start(spec Spec) (*Child, error) {
	if spec.Path == "" {
		spec.Path = v.path
	}
	spec, err := spec.complete()
	if err != nil {
		return nil, err
	}
	f, err := v.begin()
	if err != nil {
		return nil, err
	}
	// Stopped below; it has no effect on a settled birth.
	timer := time.AfterFunc(v.patience, func() { v.overdue(f) })
	defer timer.Stop()
	if err := v.order(f, spec); err != nil {
		v.settle(f, err)
		v.mu.Lock()
		delete(v.forks, f.id) // nothing was sent
		v.mu.Unlock()
	}
	child, err := v.await(f)
	if err != nil {
		return nil, err
	}
	v.spawner.finish(child)
	return child, nil
}

// begin registers a start.
func (v *Server) begin() (*birth, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.gone != nil {
		return nil, v.gone
	}
	v.last++
	f := &birth{id: v.last, born: make(chan struct{}), settled: make(chan struct{})}
	v.forks[f.id] = f
	v.open++
	return f, nil
}

// await waits until f is settled. If the start failed, it also waits for the end of the
// child.
func (v *Server) await(f *birth) (*Child, error) {
	select {
	case <-f.settled:
	case <-f.born:
		v.awaitProgram(f)
		<-f.settled
	}
	select {
	case <-f.born:
		_ = f.child.file.SetReadDeadline(time.Time{}) // announce may have set one
		if f.err != nil {
			_ = f.child.Kill() // it may have ended by itself
			_, _ = f.child.Wait()
		}
	default:
		if f.release != nil {
			f.release()
		}
	}
	if f.err != nil {
		return nil, f.err
	}
	return f.child, nil
}

// awaitProgram waits until the child of f has reported that its program begins, or has
// ended before that.
func (v *Server) awaitProgram(f *birth) {
	conn, err := f.child.file.SyscallConn()
	if err == nil {
		err = conn.Read(func(uintptr) bool { return f.child.hasEnded() })
	}
	if err != nil { // woken by announce; or the poller does not support pidfds here
		return
	}
	// What the child reported before its end is in the socket or being handled.
	v.drain()
	exit, err := f.child.Wait()
	if err == nil {
		err = fmt.Errorf("confine: a child of the fork server ended with %v before its program began", exit)
	}
	v.settle(f, err)
}

// settle decides f once: nil means that its program runs.
func (v *Server) settle(f *birth, err error) {
	v.mu.Lock()
	decided := f.given
	if !decided {
		f.given, f.err = true, err
		v.open--
	}
	v.mu.Unlock()
	if !decided {
		v.announce(f)
	}
}

// announce wakes the goroutines that wait for f, which is decided.
func (v *Server) announce(f *birth) {
	select {
	case <-f.born:
		_ = f.child.file.SetReadDeadline(time.Unix(1, 0)) // wakes awaitProgram
	default:
	}
	close(f.settled)
	v.finish()
}

// overdue ends a start that has taken too long: the child if it exists, else the server.
func (v *Server) overdue(f *birth) {
	select {
	case <-f.born:
		v.settle(f, fmt.Errorf("confine: a child of the fork server did not start its program within %v: %w", v.patience, os.ErrDeadlineExceeded))
	default:
		v.mu.Lock()
		waits := !f.given
		if waits && v.gone == nil {
			v.gone = fmt.Errorf("%w: it did not answer within %v and was killed", ErrServerGone, v.patience)
		}
		v.mu.Unlock()
		if waits {
			_ = v.child.Kill() // its end settles f
		}
	}
}

// closeTime is how long a server may take to end by itself.
const closeTime = 500 * time.Millisecond

// Close ends the server: it asks the server to end, so that its modules can run their
// exit code, and kills it after half a second. Starts in progress end with an error or
// with a child. Children live on. Close is idempotent and returns within 5.5 seconds; if
// the process did not die, the error names it.
func (v *Server) Close() error { return v.end(closeTime) }

func (v *Server) end(grace time.Duration) error {
	v.mu.Lock()
	if v.gone == nil {
		v.gone = fmt.Errorf("%w: it was closed", ErrServerGone)
	}
	v.mu.Unlock()
	timer := time.NewTimer(grace)
	defer timer.Stop()
	// An error means that it was closed, and so asked to end, before.
	_ = v.raw.Control(func(fd uintptr) { _ = unix.Shutdown(int(fd), unix.SHUT_WR) })
	select {
	case <-v.dead:
	case <-timer.C:
		_ = v.child.Kill()
	}
	timer.Reset(closeGrace)
	select {
	case <-v.done:
		v.sending.Lock() // later calls see that it is gone
		v.spawner.delist(v)
		v.sending.Unlock()
		return nil
	case <-timer.C:
		return fmt.Errorf("confine: the fork server, process %d, did not end within %v after it was killed%s", v.child.pid, closeGrace, processState(v.child.pid))
	}
}

// enlist makes Close of s end v too.
func (s *Spawner) enlist(v *Server) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return ErrClosed
	}
	if s.servers == nil {
		s.servers = make(map[*Server]struct{})
	}
	s.servers[v] = struct{}{}
	return nil
}

func (s *Spawner) delist(v *Server) {
	s.mu.Lock()
	delete(s.servers, v)
	s.mu.Unlock()
}

// endServers kills all servers. They start no more children.
func (s *Spawner) endServers() error {
	s.mu.Lock()
	servers := slices.Collect(maps.Keys(s.servers))
	s.mu.Unlock()
	errs := make([]error, len(servers))
	var all sync.WaitGroup
	for i, v := range servers {
		all.Go(func() { errs[i] = v.end(0) }) // bounded by closeGrace
	}
	all.Wait()
	return errors.Join(errs...)
}

// guarded reports whether children start in the namespace of a guard.
func (s *Spawner) guarded() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.current.guard != nil
}
