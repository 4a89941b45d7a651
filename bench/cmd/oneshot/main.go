// Command oneshot measures what it costs to start a short process for each line of an
// input: bullpen map -p exec, xargs and GNU parallel start the program true, two at a
// time. The programs take turns, and each is compared with xargs round by round. Linux
// only.
//
//	go run ./cmd/oneshot          # 2000 processes, 7 rounds, about two minutes
//	go run ./cmd/oneshot -quick   # 500 processes, 3 rounds
package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/bullpen-run/bullpen/bench/internal/machine"
)

type options struct {
	tasks, rounds, slots int
	patience             time.Duration
	bullpen              string
	out                  string
	quick                bool
}

// yardstick is what the others are compared with.
const yardstick = "xargs"

// run is what a result file holds.
type run struct {
	Date    time.Time
	Command string
	Machine machine.Machine
	Tasks   int
	Slots   int
	Rounds  []round
}

// round is one turn of all programs.
type round struct {
	Load   string
	Others float64
	Took   map[string]took
}

// took is what one program took for the whole input, what it started included.
type took struct{ Wall, CPU float64 }

func main() {
	var o options
	flag.IntVar(&o.tasks, "tasks", 2000, "processes to start")
	flag.IntVar(&o.rounds, "rounds", 7, "turns of each program")
	flag.IntVar(&o.slots, "slots", 2, "processes at a time")
	flag.DurationVar(&o.patience, "patience", 5*time.Second, "how long to wait, before each round, for other programs to leave the processors")
	flag.StringVar(&o.bullpen, "bullpen", "", "the program bullpen to measure (default: it is built)")
	flag.StringVar(&o.out, "out", "", "folder for the results (default results; with -quick ../.cache/bench/results)")
	flag.BoolVar(&o.quick, "quick", false, "500 processes, 3 rounds, no patience")
	flag.Parse()
	if o.quick {
		o.tasks, o.rounds, o.patience = 500, 3, 0
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := bench(ctx, o)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "oneshot:", err)
		os.Exit(1)
	}
}

func bench(ctx context.Context, o options) error {
	if o.tasks < 1 || o.rounds < 1 || o.slots < 1 {
		return errors.New("-tasks, -rounds and -slots must be above zero")
	}
	folder, err := moduleFolder()
	if err != nil {
		return err
	}
	if o.out == "" {
		o.out = filepath.Join(folder, "results")
		if o.quick {
			o.out = filepath.Join(filepath.Dir(folder), ".cache", "bench", "results")
		}
	}
	if o.bullpen == "" {
		place, err := os.MkdirTemp("", "oneshot")
		if err != nil {
			return err
		}
		defer os.RemoveAll(place)
		o.bullpen = filepath.Join(place, "bullpen")
		build := exec.CommandContext(ctx, "go", "build", "-o", o.bullpen, "./cmd/bullpen")
		build.Dir, build.Stderr = filepath.Dir(folder), os.Stderr
		build.Env = append(os.Environ(), "CGO_ENABLED=0") // as make build does
		if err := build.Run(); err != nil {
			return fmt.Errorf("building bullpen: %w", err)
		}
	}
	r := &run{
		Date: time.Now(), Command: strings.Join(append([]string{"go run ./cmd/oneshot"}, os.Args[1:]...), " "),
		Machine: machine.Describe(), Tasks: o.tasks, Slots: o.slots,
	}
	programs := r.programs(ctx, o)
	for i := range o.rounds {
		fmt.Fprintf(os.Stderr, "round %d of %d\n", i+1, o.rounds)
		rd := round{Load: machine.Load(), Others: machine.Others(ctx, o.patience), Took: map[string]took{}}
		for _, p := range programs {
			if rd.Took[p.name], err = measure(ctx, p.command, o.tasks); err != nil {
				return fmt.Errorf("%s: %w", p.name, err)
			}
		}
		r.Rounds = append(r.Rounds, rd)
	}
	return r.save(o.out)
}

type program struct {
	name    string
	command []string
}

// programs are those that are there, and their versions.
func (r *run) programs(ctx context.Context, o options) []program {
	slots := strconv.Itoa(o.slots)
	all := []program{
		{"bullpen", []string{o.bullpen, "map", "-p", "exec", "-j", slots, "--", "true"}},
		{yardstick, []string{"xargs", "-P" + slots, "-n1", "true"}},
		{"bullpen --nice 0", []string{o.bullpen, "map", "-p", "exec", "-j", slots, "--nice", "0", "--", "true"}},
		{"parallel", []string{"parallel", "--will-cite", "-j" + slots, "true"}},
	}
	return slices.DeleteFunc(all, func(p program) bool {
		said, err := exec.CommandContext(ctx, p.command[0], "--version").Output()
		if err != nil {
			fmt.Fprintln(os.Stderr, "left out:", p.name, err)
			return true
		}
		r.Machine.Versions[p.name], _, _ = strings.Cut(string(said), "\n")
		return false
	})
}

// measure runs a command over the input once.
func measure(ctx context.Context, command []string, tasks int) (took, error) {
	var input, said bytes.Buffer
	for i := range tasks {
		fmt.Fprintln(&input, i+1)
	}
	cmd := exec.CommandContext(ctx, command[0], command[1:]...)
	cmd.Stdin, cmd.Stderr = &input, &said
	began := time.Now()
	if err := cmd.Run(); err != nil {
		return took{}, fmt.Errorf("%w: %s", err, said.String())
	}
	wall := time.Since(began)
	return took{Wall: wall.Seconds(), CPU: (cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()).Seconds()}, nil
}

// median of what pick takes from each round, with the least and the most.
func (r *run) median(pick func(round) float64) (middle, least, most float64) {
	var all []float64
	for _, rd := range r.Rounds {
		all = append(all, pick(rd))
	}
	slices.Sort(all)
	return all[len(all)/2], all[0], all[len(all)-1]
}

// save writes the raw figures and the table.
func (r *run) save(folder string) error {
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	raw, err := json.MarshalIndent(r, "", " ")
	if err != nil {
		return err
	}
	name := r.Date.Format("2006-01-02") + "-oneshot.json"
	if err := os.WriteFile(filepath.Join(folder, name), append(raw, '\n'), 0o644); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(folder, "oneshot.md"), []byte(r.table(name)), 0o644)
}

func (r *run) table(raw string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "# A process a line: %s\n\n`%s`: %d times `true`, %d at a time, %d rounds; medians, in brackets the least and the most. Raw figures: %s.\n\n",
		r.Date.Format("2006-01-02"), r.Command, r.Tasks, r.Slots, len(r.Rounds), raw)
	fmt.Fprintf(&b, "Machine: %s, %d processors, Linux %s.\n", r.Machine.Processor, r.Machine.Processors, r.Machine.Kernel)
	busy, least, most := r.median(func(rd round) float64 { return rd.Others })
	fmt.Fprintf(&b, "Before the rounds other programs kept the processors %.0f %% busy (%.0f..%.0f).\n\n", busy, least, most)
	b.WriteString("| program | wall, s | against xargs | time of processors, s | against xargs |\n|---|---|---|---|---|\n")
	var names []string
	for name := range r.Rounds[0].Took {
		names = append(names, name)
	}
	slices.SortFunc(names, cmp.Compare[string])
	for _, name := range names {
		column := func(pick func(took) float64, over bool) string {
			m, low, high := r.median(func(rd round) float64 {
				value := pick(rd.Took[name])
				if over {
					value /= pick(rd.Took[yardstick])
				}
				return value
			})
			return fmt.Sprintf("%.2f (%.2f..%.2f)", m, low, high)
		}
		wall, cpu := func(t took) float64 { return t.Wall }, func(t took) float64 { return t.CPU }
		if r.Rounds[0].Took[yardstick].Wall == 0 {
			fmt.Fprintf(&b, "| %s | %s | | %s | |\n", name, column(wall, false), column(cpu, false))
			continue
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s |\n", name, column(wall, false), column(wall, true), column(cpu, false), column(cpu, true))
	}
	return b.String()
}

// moduleFolder looks for the folder of this module at and above the working
// directory.
func moduleFolder() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for at := dir; ; at = filepath.Dir(at) {
		b, err := os.ReadFile(filepath.Join(at, "go.mod"))
		if err == nil && strings.HasPrefix(string(b), "module github.com/bullpen-run/bullpen/bench\n") {
			return at, nil
		}
		if at == filepath.Dir(at) {
			return "", fmt.Errorf("%s is not in the folder bench: go there first", dir)
		}
	}
}
