package cli

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/bullpen-run/bullpen/internal/daemon"
	"github.com/bullpen-run/bullpen/internal/daemon/settings"
)

// checked reports that a configuration has no faults and, with --start, how the
// workers start.
func (s *serve) checked(c *settings.Settings) error {
	if _, err := fmt.Fprintf(s.stdout, "%s: ok (%s)\n", orNone(c.Path), poolsOf(c)); err != nil || !s.start {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	failed := false
	for _, t := range daemon.Try(ctx, c) {
		switch p := c.Pools[t.Pool]; {
		case t.Err != nil:
			failed = true
			fmt.Fprintf(s.stderr, "pool %s: %v\n", t.Pool, t.Err)
		case t.Started:
			fmt.Fprintf(s.stdout, "pool %s: a worker was ready after %v\n", t.Pool, t.Took.Round(time.Millisecond))
		case len(p.Process.Command) == 0:
			fmt.Fprintf(s.stdout, "pool %s: no workers in this daemon\n", t.Pool)
		default:
			fmt.Fprintf(s.stdout, "pool %s: not tried: each task gets its own process\n", t.Pool)
		}
	}
	if failed {
		return status(exitFailed)
	}
	return nil
}
