package cli

import (
	"context"
	"strings"

	"github.com/spf13/cobra"

	"github.com/bullpen-run/bullpen/client"
)

func newStatus(r *remote) *cobra.Command {
	return r.command(verb{
		use: "status", short: "Show whether a daemon is live and ready",
		long: "Status shows whether the daemon is live and ready. The exit status is 3 if the daemon\n" +
			"does not answer, or answers but is not ready.",
		args: wants(0, 0, "bullpen status"),
		do: func(ctx context.Context, c *client.Client, _ []string) error {
			s, err := c.Status(ctx)
			if err != nil {
				return err
			}
			if r.asJSON {
				err = r.raw(s.Raw)
			} else {
				r.printf("%s", statusText(&s, r.address(), r.style))
			}
			if err == nil && !s.Ready {
				return status(exitDaemon)
			}
			return err
		},
	})
}

func statusText(s *client.Status, address string, st style) string {
	var p pairs
	p.add("daemon", address)
	p.add("version", s.Version)
	p.add("node", s.Node)
	state := cell{"ready", toneGood}
	switch {
	case s.Stopping:
		state = cell{"stopping", toneWarn}
	case !s.Live:
		state = cell{"not live: it makes no progress; see its log, and restart it", toneBad}
	case !s.Ready:
		state = cell{"not ready", toneWarn}
	}
	p.addTone("state", state.text, state.tone)
	p.add("up for", spanText(s.Uptime))
	store := s.Store.Kind
	if s.Store.Replicas > 1 {
		store += ", " + plural(s.Store.Replicas, "replica")
	}
	p.add("store", strings.Trim(store, ", "))
	p.add("durability", s.Store.Durability)
	p.addTone("log lines dropped", moreThan(s.LogLinesDropped), toneWarn)
	return p.draw(st)
}

func newReload(r *remote) *cobra.Command {
	return r.command(verb{
		use: "reload", short: "Reload the configuration of a daemon",
		long: "Reload makes the daemon read its configuration again, as SIGHUP does. New workers are\n" +
			"ready before the old ones end. A configuration with faults changes nothing.",
		args: wants(0, 0, "bullpen reload"),
		do: func(ctx context.Context, c *client.Client, _ []string) error {
			changed, err := c.Reload(ctx)
			if err != nil {
				return err
			}
			if r.asJSON {
				if changed == nil {
					changed = []string{}
				}
				return r.object(map[string][]string{"changed": changed})
			}
			if len(changed) == 0 {
				r.printf("nothing has changed\n")
			}
			for _, what := range changed {
				r.printf("changed: %s\n", plain(what))
			}
			return nil
		},
	})
}
