// Command daemon measures bullpen serve from outside, as its users meet it: a no-op
// on a warm worker process from HTTP request to result, ephemeral and durable, with
// one caller and with many, beside a bare server of net/http that answers at once;
// and the size, start and idle memory of the program. All in one interleaved run, the
// daemon with its default configuration. Linux only.
//
//	go run ./cmd/daemon            # 5 rounds, about five minutes
//	go run ./cmd/daemon -quick     # one short round
//	go run ./cmd/daemon -only sdk  # some cells only
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/bullpen-run/bullpen/bench/internal/machine"
)

type options struct {
	rounds   int
	span     time.Duration
	callers  int
	patience time.Duration
	out      string
	quick    bool
	only     *regexp.Regexp
	bare     string // in the process that is the bare server: its address
}

func main() {
	o := parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	do := bench
	if o.bare != "" {
		do = serveBare
	}
	err := do(ctx, o)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "daemon:", err)
		os.Exit(1)
	}
}

func parse() options {
	var o options
	flag.IntVar(&o.rounds, "rounds", 5, "how often every cell is taken")
	flag.DurationVar(&o.span, "span", 4*time.Second, "how long a cell is measured, after a warm-up of a quarter of it")
	flag.IntVar(&o.callers, "callers", 64, "how many callers there are in the cells with many")
	flag.DurationVar(&o.patience, "patience", 10*time.Second, "how long to wait, before each cell, for other programs to leave the processors")
	flag.StringVar(&o.out, "out", "", "folder for the results (default results; with -quick ../.cache/bench/results)")
	flag.BoolVar(&o.quick, "quick", false, "one round, 1 s a cell, no patience")
	only := flag.String("only", "", "take only cells whose name matches this regular expression; the results go to ../.cache/bench/results")
	flag.StringVar(&o.bare, "bare", "", "be the bare server at this address (the command starts itself so)")
	flag.Parse()
	o.only = regexp.MustCompile(*only)
	if o.quick {
		o.rounds, o.span, o.patience = 1, time.Second, 0
	}
	return o
}

// run is one run with all its figures, as it is kept in results.
type run struct {
	Date    time.Time       `json:"date"`
	Command string          `json:"command"`
	Rounds  int             `json:"rounds"`
	Span    string          `json:"span"`
	Took    string          `json:"took"`
	Machine machine.Machine `json:"machine"`
	Binary  int64           `json:"binary_bytes"`
	Cells   []taken         `json:"cells"`
}

// taken is what one cell gave in one round.
type taken struct {
	Cell    string             `json:"cell"`
	Round   int                `json:"round"`
	Load    string             `json:"load_before"`
	Others  float64            `json:"others_before_percent"` // of all processors, by other programs
	Metrics map[string]float64 `json:"metrics,omitempty"`
	Error   string             `json:"error,omitempty"`
}

func bench(ctx context.Context, o options) error {
	if o.rounds < 1 || o.span <= 0 || o.callers < 1 {
		return errors.New("-rounds, -span and -callers must be above zero")
	}
	s, err := newSite(ctx)
	if err != nil {
		return err
	}
	if o.out == "" {
		o.out = filepath.Join(s.bench, "results")
		if o.quick || o.only.String() != "" {
			o.out = s.cached("results")
		}
	}
	if err := os.MkdirAll(o.out, 0o755); err != nil {
		return err
	}
	r := &run{
		Date: time.Now(), Command: strings.Join(append([]string{"go run ./cmd/daemon"}, os.Args[1:]...), " "),
		Rounds: o.rounds, Span: o.span.String(), Machine: machine.Describe(), Binary: s.size,
	}
	cells := slices.DeleteFunc(plan(o), func(c cell) bool { return !o.only.MatchString(c.id) })
	for round := range o.rounds {
		rand.Shuffle(len(cells), func(i, k int) { cells[i], cells[k] = cells[k], cells[i] })
		for _, c := range cells {
			t := taken{Cell: c.id, Round: round + 1, Load: machine.Load(), Others: machine.Others(ctx, o.patience)}
			var err error
			t.Metrics, err = s.take(ctx, o, c)
			if ctx.Err() != nil {
				return errors.New("interrupted")
			}
			if err != nil {
				t.Error = s.hide(err.Error())
			}
			fmt.Fprintf(os.Stderr, "%d/%d %s: %v %s\n", round+1, o.rounds, c.id, t.Metrics, t.Error)
			r.Cells = append(r.Cells, t)
		}
	}
	r.Took = time.Since(r.Date).Round(time.Second).String()
	return r.save(o.out)
}
