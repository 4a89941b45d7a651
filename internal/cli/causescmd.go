package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/bullpen-run/bullpen/client"
	"github.com/bullpen-run/bullpen/job"
)

func newDeadCauses(r *remote) *cobra.Command {
	var filter job.Filter
	return completeDead(r, r.command(verb{
		use: "causes", short: "Count the dead jobs by cause, the most frequent first",
		long: "Causes groups the dead jobs by pool, task, reason, outcome and the first line of their\n" +
			"error, ignoring numbers, ids and quoted parts of that line. Pass the id of a cause to\n" +
			"bullpen dead ls, retry or rm with --cause. The daemon reads the newest dead jobs first,\n" +
			"as many as it can in a tenth of a second.",
		example: "  bullpen dead causes --since 24h\n  bullpen dead retry --cause 89af7e51c13b",
		args:    wants(0, 0, "bullpen dead causes --pool NAME"),
		flags: func(f flagSet) {
			add(f, &filter.Queue, "pool", "p", "NAME", "", word, "only jobs of this pool")
			add(f, &filter.Name, "task", "t", "NAME", "", word, "only jobs of this task")
			findFlags(r, f, &filter)
			whyFlags(f, &filter, deadReasons)
		},
		do: func(ctx context.Context, c *client.Client, _ []string) error {
			all, err := c.DeadCauses(ctx, filter)
			if err != nil {
				return ofPool(filter.Queue, err)
			}
			return r.printCauses(&all)
		},
	}))
}

func (r *remote) printCauses(all *job.Causes) error {
	if r.asJSON {
		for i := range all.Causes {
			if err := r.object(all.Causes[i]); err != nil {
				return err
			}
		}
		return nil
	}
	t := newTable(">JOBS", "CAUSE", "POOL", "TASK", "REASON", "OUTCOME", ">FIRST", ">LAST", "SAMPLE", "ERROR")
	t.spare = []int{8, 6, 5} //nolint:mnd // the places of columns
	for _, c := range all.Causes {
		t.addCells(
			cell{text: fmt.Sprint(c.Count)}, cell{text: c.Fingerprint}, cell{text: c.Queue}, cell{text: c.Name}, cell{string(c.Reason), toneBad}, cell{text: c.Outcome.String()},
			cell{text: sinceText(c.First, r.now())}, cell{text: sinceText(c.Last, r.now())}, cell{text: c.Sample}, cell{text: c.Error},
		)
	}
	if len(all.Causes) > 0 {
		r.printf("%s", t.draw(r.style))
	}
	if err := r.flush(); err != nil {
		return err
	}
	switch {
	case all.More:
		r.say("these are the causes of the last %s; for older ones use --before TIME", plural(all.Jobs, "dead job"))
	case len(all.Causes) == 0:
		r.say("no dead jobs")
	}
	return nil
}
