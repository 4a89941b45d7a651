package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/bullpen-run/bullpen/client"
)

// top has the flags and state of bullpen top.
type top struct {
	*remote
	once  bool
	every time.Duration
	view  topView
}

func newTop(r *remote) *cobra.Command {
	t := &top{remote: r, every: time.Second}
	return r.command(verb{
		use: "top", short: "Watch the pools of a daemon",
		long: "Top shows the pools of the daemon once a second: workers (busy, up and allowed),\n" +
			"waiting and running jobs, the age of the oldest, how many tasks end well and badly per\n" +
			"second, deaths of workers, and wait and run times (p50 and p99). Press q or Ctrl-C to\n" +
			"quit. If standard output is not a terminal, it prints one table.",
		args: wants(0, 0, "bullpen top"),
		flags: func(f flagSet) {
			f.BoolVar(&t.once, "once", false, "print one table and exit")
			add(f, &t.every, "interval", "", "TIME", "1s", interval, "time between two updates")
		},
		do: func(ctx context.Context, c *client.Client, _ []string) error {
			t.view.address = r.address()
			if t.once || r.asJSON || !isTerminal(r.stdout) || !drawsOver() {
				return t.print(ctx, c)
			}
			return t.live(ctx, c)
		},
	})
}

// interval parses the time between two queries, which has a minimum that protects the
// daemon.
func interval(text string) (time.Duration, error) {
	d, err := positive(text)
	if err == nil && d < 100*time.Millisecond {
		err = errors.New("use 100ms or more")
	}
	return d, err
}

// look queries the daemon for all that is shown.
func (t *top) look(ctx context.Context, c *client.Client) *sample {
	s := &sample{}
	if s.status, s.err = c.Status(ctx); s.err == nil {
		s.pools, s.err = c.Pools(ctx)
	}
	s.at = t.now()
	return s
}

// print prints the current state once.
func (t *top) print(ctx context.Context, c *client.Client) error {
	s := t.look(ctx, c)
	if s.err != nil {
		return s.err
	}
	if t.asJSON {
		pools := make([]json.RawMessage, len(s.pools))
		for i := range pools {
			pools[i] = s.pools[i].Raw
		}
		return t.object(struct {
			Time   time.Time         `json:"time"`
			Status json.RawMessage   `json:"status"`
			Pools  []json.RawMessage `json:"pools"`
		}{s.at.UTC(), s.status.Raw, pools})
	}
	t.view.take(s, "")
	t.printf("%s", t.view.draw(t.style, 0, s.at))
	return nil
}

// live shows the pools on the alternate screen of the terminal until the user ends
// it, and restores the terminal.
func (t *top) live(ctx context.Context, c *client.Client) (err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	keys := make(chan byte, 8)
	var helpers sync.WaitGroup
	if in, ok := t.stdin.(*os.File); ok && isTerminal(in) {
		restore, failed := singleKeys(ctx, in)
		if failed == nil {
			defer func() { err = errors.Join(err, restore()) }()
			helpers.Go(func() { readKeys(ctx, in, keys) }) // ends a moment after ctx
		}
	}
	defer helpers.Wait()
	defer cancel() // runs before the wait
	sizes := make(chan os.Signal, 1)
	watchSize(sizes)
	defer signal.Stop(sizes)
	fmt.Fprint(t.stdout, enterScreen)
	defer fmt.Fprint(t.stdout, leaveScreen)
	samples := make(chan *sample)
	helpers.Go(func() { t.watch(ctx, c, samples) }) // ends with ctx
	columns, rows := terminalSize(ctx, t.stdout)
	for {
		if err := t.show(columns, rows); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return nil // a signal is a normal way to end it
		case k := <-keys:
			if k == 'q' || k == 'Q' || k == 'c'&0x1f || k == 'd'&0x1f {
				return nil
			}
		case <-sizes:
			columns, rows = terminalSize(ctx, t.stdout)
		case s := <-samples:
			t.view.take(s, t.troubleOf(ctx, c, s))
		}
	}
}

// troubleOf returns why a query failed, and that it will be retried.
func (t *top) troubleOf(ctx context.Context, c *client.Client, s *sample) string {
	if s.err == nil {
		return ""
	}
	_, text := t.explain(ctx, c, s.err)
	text, _, _ = strings.Cut(text, "\n")
	return text + " (retrying)"
}

// watch queries the daemon repeatedly until ctx ends.
func (t *top) watch(ctx context.Context, c *client.Client, samples chan<- *sample) {
	ticker := time.NewTicker(t.every)
	defer ticker.Stop()
	for {
		s := t.look(ctx, c)
		select {
		case samples <- s:
		case <-ctx.Done():
			return
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
	}
}

// show draws the screen with one write, so that it does not flicker.
func (t *top) show(columns, rows int) error {
	t.style.width = columns
	text := t.view.draw(t.style, rows-1, t.now())
	text = topLeft + strings.ReplaceAll(text, "\n", eraseRest+"\r\n") + eraseBelow
	_, err := io.WriteString(t.stdout, text)
	return err
}

// readKeys sends typed keys to keys until ctx ends. A read returns nothing if no key
// was pressed for a moment; if reads repeatedly return at once with nothing, the
// terminal is gone.
func readKeys(ctx context.Context, in *os.File, keys chan<- byte) {
	var buffer [16]byte
	const most = 50
	for nothing := 0; ctx.Err() == nil && nothing < most; {
		begun := time.Now()
		n, err := in.Read(buffer[:])
		switch {
		case n == 0 && errors.Is(err, io.EOF) && time.Since(begun) > 20*time.Millisecond:
			nothing = 0
		case n == 0 && errors.Is(err, io.EOF):
			nothing++
		case err != nil:
			return
		}
		for _, k := range buffer[:n] {
			select {
			case keys <- k:
			case <-ctx.Done():
			}
		}
	}
}
