package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/bullpen-run/bullpen/bench/internal/machine"
)

// places are the folders of a run.
type places struct {
	bench string // of this module
}

// find looks for the folder of this module at and above the working directory.
func find() (places, error) {
	dir, err := os.Getwd()
	if err != nil {
		return places{}, err
	}
	for at := dir; ; at = filepath.Dir(at) {
		b, err := os.ReadFile(filepath.Join(at, "go.mod"))
		if err == nil && strings.HasPrefix(string(b), "module github.com/bullpen-run/bullpen/bench\n") {
			return places{bench: at}, nil
		}
		if at == filepath.Dir(at) {
			return places{}, fmt.Errorf("%s is not in the folder bench: go there first", dir)
		}
	}
}

// root is the folder of Bullpen itself.
func (p places) root() string { return filepath.Dir(p.bench) }

// cached is a file that may be removed at any time between runs.
func (p places) cached(name string) string { return filepath.Join(p.root(), ".cache", "bench", name) }

func (p places) python() string { return p.cached("queue-venv/bin/python") }

func (p places) node() string { return p.cached("queue-node") }

// worker is the program of the warm worker processes.
func (p places) worker() string { return p.cached("bin/queue-worker") }

// peers is a file among the peers' cells.
func (p places) peers(name string) string { return filepath.Join(p.bench, "peers", "queue", name) }

// hide takes the place of this checkout out of a text.
func (p places) hide(text string) string { return strings.ReplaceAll(text, p.root(), "..") }

// missing says why a part is not to be had; a part that is there has no entry.
type missing map[part]error

// prepare builds and installs what the cells need. What cannot be had is noted:
// its cells say so, and the others go on.
func (r *run) prepare(ctx context.Context, p places, cells []cell) (missing, error) {
	gone := missing{}
	steps := []struct {
		part part
		do   func(context.Context, *run, places) error
	}{{redis, installRedis}, {postgres, installPostgres}, {python, installPython}, {node, installNode}, {worker, buildWorker}}
	if err := os.MkdirAll(p.cached("bin"), 0o755); err != nil {
		return nil, err
	}
	for _, s := range steps {
		needed := false
		for _, c := range cells {
			for _, n := range c.system.needs {
				needed = needed || n == s.part
			}
		}
		if !needed {
			continue
		}
		fmt.Fprintln(os.Stderr, "preparing", s.part)
		if err := s.do(ctx, r, p); err != nil {
			gone[s.part] = err
			r.note(p, fmt.Sprintf("%s: %v", s.part, err))
		}
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
	}
	return gone, nil
}

func (r *run) note(p places, text string) {
	r.Notes = append(r.Notes, p.hide(text))
	fmt.Fprintln(os.Stderr, "note:", p.hide(text))
}

// debian installs a package of Debian unless look finds what it brings.
func debian(ctx context.Context, p places, name string, look func() error) error {
	if look() == nil {
		return nil
	}
	if os.Geteuid() != 0 {
		return fmt.Errorf("not installed, and this is not root: apt-get install %s", name)
	}
	install := func() error {
		// The package must not start a server of its own.
		return command(ctx, p.bench, []string{"RUNLEVEL=1", "DEBIAN_FRONTEND=noninteractive"}, "apt-get", "install", "-y", "--no-install-recommends", name)
	}
	if install() != nil {
		if err := command(ctx, p.bench, nil, "apt-get", "update"); err != nil {
			return err
		}
		if err := install(); err != nil {
			return err
		}
	}
	return look()
}

func installRedis(ctx context.Context, r *run, p places) error {
	err := debian(ctx, p, "redis-server", func() error {
		_, err := exec.LookPath("redis-server")
		return err
	})
	if err == nil {
		r.version(ctx, "redis", "redis-server", "--version")
	}
	return err
}

func installPostgres(ctx context.Context, r *run, p places) error {
	var bin string
	err := debian(ctx, p, "postgresql", func() (err error) {
		bin, err = postgresBin()
		return err
	})
	if err == nil {
		r.version(ctx, "postgres", filepath.Join(bin, "postgres"), "--version")
	}
	return err
}

func installPython(ctx context.Context, r *run, p places) error {
	// The interpreter itself, not a version manager's script in front of it.
	out, err := exec.CommandContext(ctx, "python3", "-c", "import sys; print(sys.executable)").Output()
	if err != nil {
		return fmt.Errorf("python3 does not run (apt-get install python3 python3-venv): %w", err)
	}
	base := strings.TrimSpace(string(out))
	file := p.peers("python/requirements.txt")
	wanted, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	venv := filepath.Dir(filepath.Dir(p.python()))
	err = stamped(filepath.Join(venv, "bench-stamp"), append(wanted, base...), func() error {
		if err := command(ctx, p.bench, nil, base, "-m", "venv", "--clear", venv); err != nil {
			return err
		}
		return command(ctx, p.bench, nil, p.python(), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "-r", file)
	})
	if err != nil {
		return err
	}
	r.version(ctx, "celery", p.python(), "-c", "import sys, celery; print(celery.__version__, 'on Python', sys.version.split()[0])")
	return nil
}

func installNode(ctx context.Context, r *run, p places) error {
	if err := os.MkdirAll(p.node(), 0o755); err != nil {
		return err
	}
	files, err := filepath.Glob(p.peers("node/*"))
	if err != nil {
		return err
	}
	var wanted []byte
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil {
			return err
		}
		if filepath.Base(f) == "package.json" {
			wanted = b
		}
		if err := os.WriteFile(filepath.Join(p.node(), filepath.Base(f)), b, 0o644); err != nil {
			return err
		}
	}
	err = stamped(filepath.Join(p.node(), "bench-stamp"), wanted, func() error {
		return command(ctx, p.node(), nil, "npm", "install", "--no-audit", "--no-fund", "--silent")
	})
	if err != nil {
		return err
	}
	const show = "console.log(JSON.parse(require('fs').readFileSync('node_modules/bullmq/package.json')).version, 'on Node', process.version)"
	cmd := exec.CommandContext(ctx, "node", "-e", show)
	cmd.Dir = p.node()
	if out, err := cmd.Output(); err == nil {
		r.Machine.Versions["bullmq"] = strings.TrimSpace(string(out))
	}
	return nil
}

// buildWorker builds the warm workers' program. An old one goes first, so that none
// is measured by mistake.
func buildWorker(ctx context.Context, _ *run, p places) error {
	if err := os.RemoveAll(p.worker()); err != nil {
		return err
	}
	return command(ctx, p.bench, []string{"CGO_ENABLED=0"}, "go", "build", "-o", p.worker(), "./cmd/queue/noop")
}

// version keeps the first line that a program says.
func (r *run) version(ctx context.Context, name, program string, args ...string) {
	out, err := exec.CommandContext(ctx, program, args...).Output()
	if err != nil {
		return
	}
	line, _, _ := strings.Cut(strings.TrimSpace(string(out)), "\n")
	line, _, _ = strings.Cut(line, " sha=")
	r.Machine.Versions[name] = line
}

// command runs a program, and gives the end of its output with its error.
func command(ctx context.Context, dir string, env []string, name string, args ...string) error {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), env...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s %s: %w: %s", name, strings.Join(args, " "), err, tail(out))
	}
	return nil
}

// stamped runs do unless it has been done with the same input before.
func stamped(stamp string, input []byte, do func() error) error {
	if old, err := os.ReadFile(stamp); err == nil && bytes.Equal(old, input) {
		return nil
	}
	if err := do(); err != nil {
		return err
	}
	return os.WriteFile(stamp, input, 0o644)
}

// compared are the modules whose versions matter.
var compared = []string{"nats-io/nats-server", "nats-io/nats.go", "hibiken/asynq", "riverqueue/river",
	"cockroachdb/pebble", "etcd.io/bbolt", "modernc.org/sqlite"}

// describe gives the machine and the versions of what is compiled in.
func describe() machine.Machine {
	m := machine.Describe()
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return m
	}
	for _, d := range info.Deps {
		for _, name := range compared {
			if strings.HasSuffix(d.Path, name) || strings.HasSuffix(d.Path, name+"/v2") {
				m.Versions[name] = d.Version
			}
		}
	}
	return m
}

// datasync is fdatasync.
func datasync(f *os.File) error {
	for {
		if err := unix.Fdatasync(int(f.Fd())); !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}
