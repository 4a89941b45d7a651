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

// prepare builds and installs what the cells need, and returns a note for each
// thing that is not to be had: its cells then say so, and the others go on.
func prepare(ctx context.Context, p places, cells []cell) (notes []string, err error) {
	need := map[string]bool{}
	for _, c := range cells {
		need[c.system.Needs] = true
	}
	steps := []struct {
		name string
		need bool
		do   func(context.Context, places) error
	}{
		{"Go programs", true, nil},
		{"Python and its pools", need["python"], installPython},
		{"Node and its pools", need["node"], installNode},
		{"GNU parallel", need["parallel"], installParallel},
	}
	for _, s := range steps {
		if !s.need {
			continue
		}
		fmt.Fprintln(os.Stderr, "preparing", s.name)
		if s.do == nil {
			notes = append(notes, build(ctx, p)...)
		} else if err := s.do(ctx, p); err != nil {
			notes = append(notes, s.name+": "+err.Error())
		}
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
	}
	for i, n := range notes {
		notes[i] = p.hide(n)
		fmt.Fprintln(os.Stderr, "note:", notes[i])
	}
	return notes, nil
}

// hide takes the place of this checkout out of a text.
func (p places) hide(text string) string {
	return strings.ReplaceAll(text, filepath.Dir(p.bench), "..")
}

// build makes the programs of this module, and the worker and the command of
// Bullpen itself. Old ones go first, so that none is measured by mistake.
func build(ctx context.Context, p places) (notes []string) {
	for _, t := range []struct{ dir, pkg string }{
		{p.bench, "./cmd/floor-cell"}, {p.bench, "./cmd/shell-cell"}, {p.bench, "./cmd/roadrunner-cell"},
		{p.bench, "./rrworker"}, {p.bench, "./pipeworker"}, {p.bench, "./onetask"},
		{p.bench, "./cmd/bullpen-cell"},
		{filepath.Dir(p.bench), "./examples/goworker"}, {filepath.Dir(p.bench), "./cmd/bullpen"},
	} {
		target := p.bin(filepath.Base(t.pkg))
		if err := os.RemoveAll(target); err != nil {
			return append(notes, err.Error())
		}
		if err := command(ctx, t.dir, "go", "build", "-o", target, t.pkg); err != nil {
			notes = append(notes, err.Error())
		}
	}
	return notes
}

// command runs a program and gives the end of its output with its error.
func command(ctx context.Context, dir, name string, args ...string) error {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	if err != nil {
		out = bytes.TrimSpace(out)
		return fmt.Errorf("%s %s: %w: %s", name, strings.Join(args, " "), err, out[max(0, len(out)-600):])
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

func installPython(ctx context.Context, p places) error {
	// The interpreter itself, not a version manager's script in front of it.
	out, err := exec.CommandContext(ctx, "python3", "-c", "import sys; print(sys.executable)").Output()
	if err != nil {
		return fmt.Errorf("python3 does not run (apt-get install python3 python3-venv): %w", err)
	}
	python := strings.TrimSpace(string(out))
	file := p.in("peers/python/requirements.txt")
	wanted, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	return stamped(p.cached("venv/bench-stamp"), append(wanted, python...), func() error {
		if err := command(ctx, p.bench, python, "-m", "venv", "--clear", p.cached("venv")); err != nil {
			return err
		}
		return command(ctx, p.bench, p.python(), "-m", "pip", "install", "--quiet", "-r", file)
	})
}

func installNode(ctx context.Context, p places) error {
	dir := p.cached("node")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	files, err := filepath.Glob(p.in("peers/node/*"))
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
		if err := os.WriteFile(filepath.Join(dir, filepath.Base(f)), b, 0o644); err != nil {
			return err
		}
	}
	return stamped(filepath.Join(dir, "bench-stamp"), wanted, func() error {
		return command(ctx, dir, "npm", "install", "--no-audit", "--no-fund", "--silent")
	})
}

func installParallel(ctx context.Context, p places) error {
	if _, err := exec.LookPath("parallel"); err == nil {
		return nil
	}
	if os.Geteuid() != 0 {
		return fmt.Errorf("not installed, and this is not root: apt-get install parallel")
	}
	install := []string{"install", "-y", "--no-install-recommends", "parallel"}
	if command(ctx, p.bench, "apt-get", install...) == nil {
		return nil
	}
	if err := command(ctx, p.bench, "apt-get", "update"); err != nil {
		return err
	}
	return command(ctx, p.bench, "apt-get", install...)
}
