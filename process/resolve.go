package process

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/bullpen-run/bullpen/internal/wire/shapes"
)

// resolved is a Config that has been checked and completed.
type resolved struct {
	Config
	traits
	path  string       // of the program, absolute
	args  []string     // Command, with the first element that the program sees
	env   []string     // complete
	allow []allowed    // Sandbox.Allow
	arn   string       // with Lambda: of the function
	shape shapes.Shape // of shared calls; nil without them
}

func resolve(c Config) (*resolved, error) {
	r := &resolved{Config: c}
	if err := r.check(); err != nil {
		return nil, err
	}
	r.complete()
	return r, nil
}

func (r *resolved) checkCommand() error {
	if len(r.Command) == 0 || r.Command[0] == "" {
		return errors.New("Command is empty: name the program of the workers and its arguments")
	}
	if int(r.Protocol) >= len(protocols) {
		return fmt.Errorf("Protocol is %d: use Frames, Lines, Exec, Lambda or HTTP", r.Protocol)
	}
	if r.Dir != "" {
		if dir, err := filepath.Abs(r.Dir); err == nil {
			r.Dir = dir // the fork server starts in another folder
		}
		if info, err := os.Stat(r.Dir); err != nil {
			return fmt.Errorf("Dir: %w", err)
		} else if !info.IsDir() {
			return fmt.Errorf("Dir %q is not a directory", r.Dir)
		}
	}
	name := r.Command[0]
	if r.Dir != "" && strings.ContainsRune(name, filepath.Separator) && !filepath.IsAbs(name) {
		name = filepath.Join(r.Dir, name)
	}
	path, err := exec.LookPath(name)
	if err != nil {
		return fmt.Errorf("Command: %w", err)
	}
	if r.path, err = filepath.Abs(path); err != nil {
		return fmt.Errorf("Command: %w", err)
	}
	return r.checkPreload()
}

func (r *resolved) checkSize() error {
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if r.Min < 0 {
		bad("Min is %d: use 0 or more workers", r.Min)
	}
	if r.Max < 0 {
		bad("Max is %d: use 1 or more workers, or 0 for one per processor", r.Max)
	}
	if r.Max > 0 && r.Max < r.Min {
		bad("Max is %d and Min is %d: Max must not be below Min", r.Max, r.Min)
	}
	if r.Spare < 0 {
		bad("Spare is %d: use 0 or more workers", r.Spare)
	}
	if r.Need < 0 {
		bad("Need is %d: use a positive number of bytes, or 0 to measure it", r.Need)
	}
	if r.Queue < 0 {
		bad("Queue is %d: use 1 or more tasks, or 0 for %d", r.Queue, DefaultQueue)
	}
	if r.Overflow > DropOldest {
		bad("Overflow is %d: use Block, Reject or DropOldest", r.Overflow)
	}
	if r.Window < 0 || r.Window > maxFlight {
		bad("Window is %d: use 1 to %d tasks, or 0 to choose by run time", r.Window, maxFlight)
	}
	return errors.Join(errs...)
}

func (r *resolved) checkTimes() error {
	var errs []error
	for _, d := range []struct {
		name  string
		value time.Duration
	}{
		{"Grace", r.Grace}, {"CloseGrace", r.CloseGrace}, {"StartTimeout", r.StartTimeout}, {"Recycle.Age", r.Recycle.Age},
	} {
		if d.value < 0 {
			errs = append(errs, fmt.Errorf("%s is %v: use a positive duration, or 0 for the default", d.name, d.value))
		}
	}
	return errors.Join(errs...)
}

func (r *resolved) checkRest() error {
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if err := r.Limits.Check(); err != nil {
		errs = append(errs, err)
	}
	if r.Limits.Output > math.MaxInt32 {
		bad("Limits.Output is %d: the maximum is %d bytes", r.Limits.Output, math.MaxInt32)
	}
	if r.Recycle.Tasks < 0 || r.Recycle.Memory < 0 || r.Recycle.Jitter > 1 {
		bad("Recycle has Tasks %d, Memory %d, Jitter %g: use 0 or more, and a Jitter of at most 1", r.Recycle.Tasks, r.Recycle.Memory, r.Recycle.Jitter)
	}
	if r.Nice != HostNice && (r.Nice < -20 || r.Nice > 19) {
		bad("Nice is %d: use -20 to 19, or HostNice", r.Nice)
	}
	for _, cpu := range r.CPUs {
		if cpu < 0 {
			bad("CPUs has %d: processors are numbered from 0", cpu)
		}
	}
	for _, e := range r.Env {
		if e == "" || strings.HasPrefix(e, "=") || strings.ContainsRune(e, 0) {
			bad("Env has %q: use NAME=value, or NAME to pass the host's value on", e)
		}
	}
	if r.Concurrency < 0 || r.Concurrency > maxFlight {
		bad("Concurrency is %d: use 1 to %d tasks, or 0 for 1", r.Concurrency, maxFlight)
	}
	for _, o := range []struct {
		name  string
		given bool
		of    []Protocol
	}{
		{"NUL", r.NUL, []Protocol{Lines}},
		{"Arguments", r.Arguments != nil, []Protocol{Exec}}, // other workers are started before there is a task
		{"Concurrency", r.Concurrency > 1, []Protocol{HTTP, Lambda}},
		{"HTTP", r.HTTP != (HTTPWorker{}), []Protocol{HTTP}},
		{"Lambda", r.Lambda != (LambdaWorker{}), []Protocol{Lambda}},
	} {
		if o.given && !slices.Contains(o.of, r.Protocol) {
			bad("%s is for the protocol %v only: leave it out, as the protocol is %v", o.name, o.of[0], r.Protocol)
		}
	}
	if r.Protocol == Lambda && slices.ContainsFunc(r.Preload, func(m string) bool { return m == "awslambdaric" || strings.HasPrefix(m, "awslambdaric.") }) {
		bad("Preload has awslambdaric, which reads the address of its worker when it is imported: preload the modules of the function instead")
	}
	errs = append(errs, r.HTTP.check(), r.checkBatch())
	return errors.Join(errs...)
}

// leastMemory is the lowest memory bound with which a program can start.
const leastMemory = 1 << 20

// leastCPU is the smallest share of a processor that the kernel can enforce.
const leastCPU = 0.01

func (r *resolved) checkBounds() error {
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if m := r.Limits.Memory; m > 0 && m < leastMemory {
		bad("Limits.Memory is %d bytes: use at least %d, which a program needs to start", m, leastMemory)
	}
	if c := r.Limits.CPU; c > 0 && c < leastCPU {
		bad("Limits.CPU is %g processors: the minimum is %g", c, leastCPU)
	}
	if r.PIDs < 0 {
		bad("PIDs is %d: use 1 or more processes, or 0 for no limit", r.PIDs)
	}
	if r.Weight < 0 || r.Weight > 10000 {
		bad("Weight is %d: use 1 to 10000, or 0 for none", r.Weight)
	}
	if r.IO > IOIdle {
		bad("IO is %d: use IONormal, IOLow or IOIdle", r.IO)
	}
	if r.OOMScore > 1000 {
		bad("OOMScore is %d: the maximum is 1000", r.OOMScore)
	}
	return errors.Join(errs...)
}

func (r *resolved) complete() {
	r.traits = protocols[r.Protocol]
	fill := func(d *time.Duration, byDefault time.Duration) {
		if *d == 0 {
			*d = byDefault
		}
	}
	fill(&r.Idle, DefaultIdle)
	fill(&r.Grace, DefaultGrace)
	fill(&r.CloseGrace, DefaultCloseGrace)
	fill(&r.StartTimeout, DefaultStartTimeout)
	fill(&r.Ping, DefaultPing)
	if r.Name == "" {
		r.Name = filepath.Base(r.Command[0])
	}
	if r.Max == 0 {
		r.Max = max(runtime.GOMAXPROCS(0), r.Min)
	}
	if r.Queue == 0 {
		r.Queue = DefaultQueue
	}
	if r.Limits.Output == 0 {
		r.Limits.Output = cmp.Or(r.output, DefaultOutput)
	}
	if r.Concurrency == 0 {
		r.Concurrency = 1
	}
	if r.Nice == 0 {
		r.Nice = DefaultNice
	}
	if r.OOMScore == 0 {
		r.OOMScore = DefaultOOMScore
	}
	if r.Arena == 0 {
		r.Arena = DefaultArena
	}
	if r.Recycle.Jitter == 0 {
		r.Recycle.Jitter = 0.1
	}
	r.Recycle.Jitter = max(r.Recycle.Jitter, 0)
	if r.Logger == nil {
		r.Logger = slog.New(slog.DiscardHandler)
	}
	r.arn = "arn:aws:lambda:" + lambdaRegion + ":000000000000:function:" + r.Name
	r.shape = r.shapeOf()
	r.env = environment(r.Env)
	r.args = r.Command
	if path := behindShim(r.path, r.env, r.Dir); path != r.path {
		// Python searches for its library next to the name that it is given.
		r.path, r.args = path, append([]string{path}, r.Command[1:]...)
	}
}

// passed lists the variables that are always passed on.
var passed = []string{"PATH", "HOME", "LANG", "TMPDIR", "TZ", "SYSTEMROOT", "TEMP", "TMP"}

func environment(allow []string) []string {
	var env []string
	have := map[string]bool{}
	for _, e := range allow {
		name, _, set := strings.Cut(e, "=")
		if !set {
			value, ok := os.LookupEnv(name)
			if !ok {
				continue
			}
			e = name + "=" + value
		}
		if !have[name] {
			have[name] = true
			env = append(env, e)
		}
	}
	for _, name := range passed {
		if value, ok := os.LookupEnv(name); ok && !have[name] {
			env = append(env, name+"="+value)
		}
	}
	return env
}
