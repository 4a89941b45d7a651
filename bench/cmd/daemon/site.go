package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// site is where the programs under measurement are.
type site struct {
	bench string // the folder of this module
	self  string // this program
	size  int64  // of the bullpen command, in bytes, stripped
}

// newSite builds what is measured.
func newSite(ctx context.Context) (*site, error) {
	dir, err := os.Getwd()
	if err != nil {
		return nil, err
	}
	s := &site{}
	for at := dir; s.bench == ""; at = filepath.Dir(at) {
		b, err := os.ReadFile(filepath.Join(at, "go.mod"))
		switch {
		case err == nil && strings.HasPrefix(string(b), "module github.com/bullpen-run/bullpen/bench\n"):
			s.bench = at
		case at == filepath.Dir(at):
			return nil, fmt.Errorf("%s is not in the folder bench: go there first", dir)
		}
	}
	if s.self, err = os.Executable(); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(s.cached("bin"), 0o755); err != nil {
		return nil, err
	}
	root := filepath.Dir(s.bench)
	if err := build(ctx, root, s.bullpen(), "./cmd/bullpen"); err != nil {
		return nil, err
	}
	if err := build(ctx, s.bench, s.cached("bin/queue-worker"), "./cmd/queue/noop"); err != nil {
		return nil, err
	}
	info, err := os.Stat(s.bullpen())
	if err != nil {
		return nil, err
	}
	s.size = info.Size()
	return s, nil
}

// build builds a command as it is released: stripped, without cgo.
func build(ctx context.Context, dir, to, what string) error {
	c := exec.CommandContext(ctx, "go", "build", "-trimpath", "-ldflags", "-s -w", "-o", to, what)
	c.Dir, c.Env = dir, append(os.Environ(), "CGO_ENABLED=0")
	if out, err := c.CombinedOutput(); err != nil {
		return fmt.Errorf("building %s: %w\n%s", what, err, out)
	}
	return nil
}

func (s *site) cached(name string) string {
	return filepath.Join(filepath.Dir(s.bench), ".cache", "bench", name)
}

func (s *site) bullpen() string { return s.cached("bin/bullpen") }

// hide takes the place of this checkout out of a text.
func (s *site) hide(text string) string {
	return strings.ReplaceAll(text, filepath.Dir(s.bench), "..")
}

// server is a program under measurement that has become ready.
type server struct {
	address string
	lambda  string        // address of the Lambda front
	ready   time.Duration // from its start
	command *exec.Cmd
	dir     string
	said    *bytes.Buffer
}

// configuration is the daemon's: everything but the pool itself is left as it is by
// default.
const configuration = `http: {listen: %q}
lambda: {listen: %q%s}
pools:
  noop:
    command: [%q]
    workers: {min: 2, max: 2}
    ephemeral: true
`

// The key of callers that sign.
const keyID, keySecret = "AKIDBENCH", "secret-of-the-benchmarks"

// start starts the daemon, or the bare server, in a folder of its own. keys has its
// Lambda front check signatures.
func (s *site) start(ctx context.Context, bare, keys bool) (*server, error) {
	address, err := free()
	if err != nil {
		return nil, err
	}
	lambda, err := free()
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp(s.cached("."), "daemon-")
	if err != nil {
		return nil, err
	}
	v := &server{address: address, lambda: lambda, dir: dir, said: &bytes.Buffer{}}
	if bare {
		v.command = exec.CommandContext(ctx, s.self, "-bare", address)
	} else {
		file := filepath.Join(dir, "bullpen.yaml")
		if err := s.configure(file, v, keys); err != nil {
			return nil, errors.Join(err, os.RemoveAll(dir))
		}
		v.command = exec.CommandContext(ctx, s.bullpen(), "serve", "--config", file)
	}
	v.command.Dir = dir
	v.command.Stdout, v.command.Stderr = v.said, v.said
	v.command.Cancel = func() error { return v.command.Process.Signal(syscall.SIGTERM) }
	v.command.WaitDelay = 10 * time.Second
	begin := time.Now()
	if err := v.command.Start(); err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	if err := v.await(ctx, begin); err != nil {
		return nil, errors.Join(err, v.stop())
	}
	return v, nil
}

// configure writes the configuration of the daemon.
func (s *site) configure(file string, v *server, keys bool) error {
	more := ""
	if keys {
		more = ", keys: keys"
		if err := os.WriteFile(filepath.Join(v.dir, "keys"), []byte(keyID+" "+keySecret+"\n"), 0o600); err != nil {
			return err
		}
	}
	return os.WriteFile(file, fmt.Appendf(nil, configuration, v.address, v.lambda, more, s.cached("bin/queue-worker")), 0o600)
}

// await asks until the server says that it is ready.
func (v *server) await(ctx context.Context, begin time.Time) error {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	for {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+v.address+"/readyz", nil)
		if err != nil {
			return err
		}
		answer, err := http.DefaultClient.Do(req)
		if err == nil {
			_ = answer.Body.Close()
			if answer.StatusCode == http.StatusOK {
				v.ready = time.Since(begin)
				return nil
			}
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("it is not ready: %w; it said: %s", ctx.Err(), v.said)
		case <-time.After(time.Millisecond):
		}
	}
}

// stop ends the server and removes its folder.
func (v *server) stop() error {
	_ = v.command.Process.Signal(syscall.SIGTERM) // it may have ended by itself
	err := v.command.Wait()
	if err != nil {
		err = fmt.Errorf("the end of the server: %w; it said: %s", err, v.said)
	}
	return errors.Join(err, os.RemoveAll(v.dir))
}

// resident is the memory that the server holds, its workers not counted, in bytes.
func (v *server) resident() (float64, error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", v.command.Process.Pid))
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(b)) {
		if rest, found := strings.CutPrefix(line, "VmRSS:"); found {
			kb, err := strconv.ParseFloat(strings.Fields(rest)[0], 64)
			return kb * 1024, err
		}
	}
	return 0, errors.New("no VmRSS in /proc/PID/status")
}

// free finds a port that nobody uses.
func free() (string, error) {
	l, err := (&net.ListenConfig{}).Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return l.Addr().String(), l.Close()
}

// serveBare is the floor: what net/http costs when nothing stands behind it.
func serveBare(ctx context.Context, o options) error {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /readyz", func(http.ResponseWriter, *http.Request) {})
	mux.HandleFunc("POST /v1/pools/{pool}/{what}", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Bullpen-Outcome", "ok")
	})
	v := &http.Server{Addr: o.bare, Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	stop := context.AfterFunc(ctx, func() { _ = v.Close() })
	defer stop()
	if err := v.ListenAndServe(); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}
