package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
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

// rough is the program of the Go workers.
func (p places) rough() string { return p.cached("bin/rough") }

// confineTest is the test program of package confine, for its benchmarks.
func (p places) confineTest() string { return p.cached("bin/confine.test") }

// python is the interpreter, of an environment that has nothing but numpy.
func (p places) python() string { return p.cached("numpy/bin/python") }

// worker is a script among the workers.
func (p places) worker(name string) string { return filepath.Join(p.bench, "workers", name) }

// hide takes the place of this checkout out of a text.
func (p places) hide(text string) string { return strings.ReplaceAll(text, p.root(), "..") }

// prepare builds and installs what the cells need. What cannot be had is noted:
// its cells say so, and the others go on.
func (r *run) prepare(ctx context.Context, p places) error {
	if err := os.MkdirAll(p.cached("bin"), 0o755); err != nil {
		return err
	}
	note := func(what string, err error) {
		if err != nil {
			r.Notes = append(r.Notes, p.hide(what+": "+err.Error()))
			fmt.Fprintln(os.Stderr, "note:", r.Notes[len(r.Notes)-1])
		}
	}
	// Old programs go first, so that none is measured by mistake.
	for _, program := range []string{p.rough(), p.confineTest()} {
		if err := os.RemoveAll(program); err != nil {
			return err
		}
	}
	fmt.Fprintln(os.Stderr, "preparing the workers")
	note("the Go worker", command(ctx, p.bench, "go", "build", "-o", p.rough(), "./workers/rough"))
	note("the benchmarks of internal/confine", command(ctx, p.root(), "go", "test", "-c", "-o", p.confineTest(), "./internal/confine"))
	note("Python", p.install(ctx))
	if out, err := exec.CommandContext(ctx, p.python(), "-I", "-c", "import sys; print(sys.version.split()[0])").Output(); err == nil {
		r.Machine.Versions["python"] = strings.TrimSpace(string(out))
	}
	if out, err := exec.CommandContext(ctx, p.python(), "-I", "-c", "import numpy; print(numpy.__version__)").Output(); err == nil {
		r.Machine.Versions["numpy"] = strings.TrimSpace(string(out))
	} else {
		note("numpy", fmt.Errorf("it cannot be imported, so its cells have no figure: %w", err))
	}
	return context.Cause(ctx)
}

// install makes the Python environment, unless it is there. It has neither pip nor
// setuptools, whose start-up file every interpreter of the environment would run.
func (p places) install(ctx context.Context) error {
	// The interpreter itself, not a version manager's script in front of it.
	out, err := exec.CommandContext(ctx, "python3", "-c", "import sys; print(sys.executable)").Output()
	if err != nil {
		return fmt.Errorf("python3 does not run (apt-get install python3 python3-venv): %w", err)
	}
	python := bytes.TrimSpace(out)
	stamp := p.cached("numpy/bench-stamp")
	if old, err := os.ReadFile(stamp); err == nil && bytes.Equal(old, python) {
		return nil
	}
	fmt.Fprintln(os.Stderr, "preparing Python and numpy")
	if err := command(ctx, p.bench, string(python), "-m", "venv", "--without-pip", "--clear", p.cached("numpy")); err != nil {
		return err
	}
	if err := command(ctx, p.bench, string(python), "-m", "pip", "--python", p.python(), "install", "--quiet", "--disable-pip-version-check", "numpy"); err != nil {
		return err
	}
	return os.WriteFile(stamp, python, 0o644)
}

// command runs a program without cgo, and gives the end of its output with its
// error.
func command(ctx context.Context, dir, name string, args ...string) error {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	out, err := cmd.CombinedOutput()
	if err != nil {
		out = bytes.TrimSpace(out)
		return fmt.Errorf("%s %s: %w: %s", name, strings.Join(args, " "), err, out[max(0, len(out)-600):])
	}
	return nil
}
