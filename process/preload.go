package process

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"time"

	"github.com/bullpen-run/bullpen/internal/confine"
)

// forkServer forks the workers of a pool with Preload from one process that has
// imported their modules. New starts that process. It is restarted when it has died,
// which affects no worker.
type forkServer struct {
	pool *Pool

	mu     sync.Mutex      // held while the process starts: starts of workers wait for it
	server *confine.Server // nil before the first start, and when it is no longer usable; guarded by mu
	closed bool            // guarded by mu

	ctx     context.Context //nolint:containedctx // its own: it ends when no worker is needed
	cancel  context.CancelFunc
	hearers sync.WaitGroup
}

// checkPreload returns the faults of Preload. r.path must be set.
func (r *resolved) checkPreload() error {
	if len(r.Preload) == 0 {
		return nil
	}
	if runtime.GOOS != "linux" {
		return fmt.Errorf("Preload needs Linux: %w", errors.ErrUnsupported)
	}
	_, _, err := zygoteCommand(r.path, r.Command, r.Preload)
	return err
}

// openForkServer starts the process in the background, if there are modules to preload.
func (p *Pool) openForkServer() {
	if len(p.config.Preload) == 0 {
		return
	}
	p.forkServer = &forkServer{pool: p}
	p.forkServer.ctx, p.forkServer.cancel = context.WithCancel(context.Background())
	// Ends when the process is ready or has failed to start; finish waits for it. The
	// first worker that needs it reports the error.
	p.tasks.Go(func() { _, _ = p.forkServer.current() })
}

// start forks a worker. spec is that of a worker without a fork server.
func (n *forkServer) start(spec confine.Spec) (*confine.Child, error) {
	_, worker, err := zygoteCommand(n.pool.config.path, spec.Args, nil)
	if err != nil {
		return nil, err
	}
	spec.Args = worker
	if spec.Dir == "" && n.pool.config.Sandbox.Profile == ProfileStrict {
		spec.Dir = n.pool.config.visibleDir(spec.Temp)
	}
	for again := false; ; again = true {
		server, err := n.current()
		if err != nil {
			return nil, err
		}
		child, err := server.Start(spec)
		if err == nil || again || !errors.Is(err, confine.ErrServerGone) {
			return child, err
		}
		n.drop(server)
	}
}

// visibleDir returns the default working directory of a worker in the strict sandbox:
// the host's, if anything in it is allowed, else the worker's temporary folder.
func (r *resolved) visibleDir(temp string) string {
	dir, err := os.Getwd()
	if err != nil {
		return temp
	}
	read, write := r.reach()
	for _, path := range append(append(read, write...), confine.SystemFolders()...) {
		if below(path, dir) || below(dir, path) {
			return dir
		}
	}
	return temp
}

// below reports whether path is folder or inside it.
func below(path, folder string) bool {
	rel, err := filepath.Rel(folder, path)
	return err == nil && filepath.IsLocal(rel)
}

// current returns the process, and starts it if there is none.
func (n *forkServer) current() (*confine.Server, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.closed || n.ctx.Err() != nil {
		return nil, confine.ErrClosed
	}
	if s := n.server; s != nil {
		select {
		case <-s.Gone():
			n.dropLocked()
		default:
			return s, nil
		}
	}
	server, err := n.launch()
	if err != nil {
		return nil, fmt.Errorf("the process that preloads %v: %w", n.pool.config.Preload, err)
	}
	n.server = server
	return server, nil
}

// drop forgets a process that is no longer usable.
func (n *forkServer) drop(server *confine.Server) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.server == server {
		n.dropLocked()
	}
}

// dropLocked closes the server; the next start launches a new one. n.mu is held.
func (n *forkServer) dropLocked() {
	server := n.server
	n.server = nil
	n.pool.logs.fault(errors.Join(errors.New("the process that preloads modules has ended and is restarted"), server.Close()))
}

// launch starts the process. Its output becomes log records.
func (n *forkServer) launch() (*confine.Server, error) {
	c := n.pool.config
	args, _, err := zygoteCommand(c.path, c.args, c.Preload)
	if err != nil {
		return nil, err
	}
	program, err := zygoteProgram()
	if err != nil {
		return nil, err
	}
	defer func() { _ = program.Close() }() // the process has its own descriptor
	var made pipes
	defer made.closeChild()
	if err := made.open(&made.stdout, &made.stderr); err != nil {
		made.closeHost()
		return nil, err
	}
	n.listen(made.stdout.host, "stdout")
	n.listen(made.stderr.host, "stderr")
	server, err := n.pool.spawn.StartServer(n.ctx, confine.Spec{
		Path: c.path, Args: args, Env: c.env, Dir: c.Dir,
		Files: []*os.File{nil, made.stdout.child, made.stderr.child, program.File()},
	}, c.StartTimeout)
	if err != nil {
		n.hush(&made)
		return nil, err
	}
	_ = server.Child().SetOOMScore(max(c.OOMScore, 0)) // ignored if the system does not support it
	// Ends with the process; close waits for it.
	n.hearers.Go(func() {
		<-server.Gone()
		n.hush(&made)
	})
	return server, nil
}

// listen turns the output of the process into log records until it has ended.
func (n *forkServer) listen(file *os.File, stream string) {
	w := &worker{pool: n.pool, name: n.pool.config.Name + "-preload", flight: make([]*call, 1)}
	s := newSplitter(w, nil, newTail(), stream)
	// Ends at the end of file or when hush wakes it; close waits for it.
	n.hearers.Go(func() {
		defer func() { _ = file.Close() }()
		hear(file, s)
	})
}

// hush ends listening soon after the process has ended, even if other processes hold
// its streams open.
func (n *forkServer) hush(made *pipes) {
	soon := time.Now().Add(n.pool.config.Grace)
	_ = made.stdout.host.SetReadDeadline(soon) // fails only if closed
	_ = made.stderr.host.SetReadDeadline(soon)
}

// abandon stops the start of a process, since no more workers are needed.
func (n *forkServer) abandon() {
	if n != nil {
		n.cancel()
	}
}

// close ends the process and waits until nothing of it is left. The workers have
// already ended.
func (n *forkServer) close() error {
	if n == nil {
		return nil
	}
	n.cancel()
	n.mu.Lock()
	n.closed = true
	server := n.server
	n.server = nil
	n.mu.Unlock()
	var err error
	if server != nil {
		err = server.Close()
	}
	n.hearers.Wait()
	return err
}
