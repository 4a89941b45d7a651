package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/bullpen-run/bullpen"
	"github.com/bullpen-run/bullpen/internal/probe"
	"github.com/bullpen-run/bullpen/process"
)

// examination is the result of bullpen doctor.
type examination struct {
	System     string             `json:"system"`
	Features   []feature          `json:"features"`
	Guarantees bullpen.Guarantees `json:"guarantees"`
	Missing    []string           `json:"missing"`
}

type feature struct {
	Name   string `json:"name"`
	OK     bool   `json:"ok"`
	Detail string `json:"detail"`
	Lost   string `json:"lost,omitempty"` // set only if the feature is missing
}

func newDoctor() *cobra.Command {
	var asJSON, strict bool
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Show how well this machine can isolate workers, and what is missing",
		Long: "Doctor tries what the kernel and the container allow bullpen to do. It prints what is\n" +
			"missing and what that costs, and what a pool of worker processes guarantees here.\n\n" +
			"Exit status: 0; with --strict, 1 if something is missing.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			found, err := examine()
			if err != nil {
				fmt.Fprintf(cmd.ErrOrStderr(), "bullpen: %v\n", err)
				return status(exitFailed)
			}
			if asJSON {
				e := json.NewEncoder(cmd.OutOrStdout())
				e.SetIndent("", "  ")
				err = e.Encode(found)
			} else {
				err = found.print(cmd.OutOrStdout())
			}
			if err != nil {
				return err
			}
			if strict && len(found.Missing) > 0 {
				return status(exitFailed)
			}
			return nil
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	cmd.Flags().BoolVar(&strict, "strict", false, "exit with status 1 if something is missing")
	return cmd
}

func examine() (*examination, error) {
	e := &examination{System: runtime.GOOS + "/" + runtime.GOARCH, Missing: []string{}}
	for _, p := range probe.All() {
		f := feature{Name: p.Name, OK: p.OK, Detail: p.Detail}
		// Version 1 control groups matter only on machines without version 2.
		if !p.OK {
			f.Lost = p.Lost
			if p.Name != probe.CgroupV1().Name || !probe.CgroupV2().OK {
				e.Missing = append(e.Missing, p.Name)
			}
		}
		e.Features = append(e.Features, f)
	}
	program, err := os.Executable()
	if err != nil {
		return nil, err
	}
	pool, err := strongest(program)
	if err != nil {
		return nil, err
	}
	e.Guarantees = pool.Guarantees()
	if err := pool.Close(); err != nil {
		return nil, err
	}
	strict, err := process.New(process.Config{Command: []string{program}, Sandbox: process.Sandbox{Profile: process.ProfileStrict}})
	if err != nil {
		return e, nil //nolint:nilerr // the notes of the pool above say what it lacks
	}
	e.lend()
	return e, strict.Close()
}

// lent are the features that a user namespace gives to workers of the strict profile,
// the only ones that use them.
var lent = []string{"mount-namespace", "ipc-namespace", "network-namespace"}

// lend removes the features that a user namespace provides from the missing ones, if
// the strict profile is fully available.
func (e *examination) lend() {
	for i, f := range e.Features {
		if !f.OK && slices.Contains(lent, f.Name) {
			e.Features[i].Detail += "; the profile strict gets it in a user namespace"
			e.Features[i].Lost = ""
		}
	}
	e.Missing = slices.DeleteFunc(e.Missing, func(name string) bool { return slices.Contains(lent, name) })
}

// strongest creates a pool, without starting workers, that uses every means of
// isolation this machine has.
func strongest(program string) (*process.Pool, error) {
	c := process.Config{
		Command: []string{program},
		Limits:  bullpen.Limits{Memory: 1 << 30, CPU: 1}, PIDs: 1 << 10,
		Sandbox: process.Sandbox{Profile: process.ProfileStrict, BestEffort: true},
	}
	pool, err := process.New(c)
	if err == nil || !errors.Is(err, errors.ErrUnsupported) {
		return pool, err
	}
	c.Limits.CPU, c.PIDs = 0, 0 // memory can still be watched
	if pool, err = process.New(c); err == nil {
		return pool, nil
	}
	c.Limits.Memory = 0
	if pool, err = process.New(c); err == nil {
		return pool, nil
	}
	c.Sandbox = process.Sandbox{}
	return process.New(c)
}

func (e *examination) print(out io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "What this machine (%s) can do\n\n", e.System)
	t := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	for _, f := range e.Features {
		fmt.Fprintf(t, "  %s\t%s\t%s\n", f.Name, yes(f.OK), f.Detail)
		if f.Lost != "" {
			fmt.Fprintf(t, "  \t\tlost without it: %s\n", f.Lost)
		}
	}
	_ = t.Flush() // it writes to memory
	b.WriteString("\nWhat a pool of worker processes guarantees here\n\n")
	g := reflect.ValueOf(e.Guarantees)
	for i := range g.NumField() {
		name := g.Type().Field(i).Name
		if meaning := promises[name]; meaning != "" {
			fmt.Fprintf(t, "  %s\t%s\t%s\n", name, yes(g.Field(i).Bool()), meaning)
		}
	}
	_ = t.Flush()
	for _, note := range e.Guarantees.Notes {
		fmt.Fprintf(&b, "  note: %s\n", note)
	}
	_, err := io.WriteString(out, b.String())
	return err
}

// promises describes the fields of bullpen.Guarantees.
var promises = map[string]string{
	"Preemptive":   "a task that ignores its cancellation is killed",
	"CrashProof":   "a crash of a task harms neither other tasks nor bullpen",
	"OrphanProof":  "no process of a task outlives bullpen, even if bullpen is killed by SIGKILL",
	"MemoryBound":  "a memory limit is enforced (--memory)",
	"CPUBound":     "a processor limit is enforced (--cpu)",
	"NoFilesystem": "a task sees only the files that it was given, with --sandbox strict",
	"NoNetwork":    "a task has no network, with --sandbox strict",
	"Exact":        "the outcome of a task is always known",
}

func yes(ok bool) string {
	if ok {
		return "yes"
	}
	return "no"
}
