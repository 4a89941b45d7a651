package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/signal"

	"github.com/spf13/cobra"

	"github.com/bullpen-run/bullpen/internal/engine/pebble"
)

// newQueue makes bullpen queue and its commands.
func newQueue() *cobra.Command {
	queue := groupOf("queue", "Check the folder in which a daemon keeps its jobs", "queues")
	queue.AddCommand(newQueueVerify())
	return queue
}

// onFolder runs a command that works on a folder here until it has ended, or a signal
// comes.
func onFolder(do func(ctx context.Context) error) error {
	ctx, stop := signal.NotifyContext(context.Background(), endings...)
	defer stop()
	err := do(ctx)
	if err != nil && ctx.Err() != nil {
		return status(exitInterrupted)
	}
	return err
}

// lineOf writes one JSON object on a line.
func lineOf(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	return e.Encode(v)
}

func newQueueVerify() *cobra.Command {
	asJSON := false
	cmd := &cobra.Command{
		Use: "verify FOLDER", Short: "Read a folder with jobs that no daemon has open, and name what is damaged",
		Long: "Verify reads all of a folder in which a daemon keeps its jobs (queue.dir), or of a backup:\n" +
			"checksums of all files and blocks, and whether jobs, indexes and counts agree. It changes\n" +
			"nothing, names each damage, with the id of the job where it is known, and goes on where it\n" +
			"can. No daemon may have the folder open.\n\n" +
			"Exit status: 0 all is whole; 1 something is damaged; 2 it could not be verified.",
		Args: wants(1, 1, "bullpen queue verify FOLDER"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return onFolder(func(ctx context.Context) error {
				return verifyFolder(ctx, args[0], asJSON, cmd.OutOrStdout(), cmd.ErrOrStderr())
			})
		},
	}
	cmd.SetFlagErrorFunc(flagError)
	cmd.Flags().BoolVar(&asJSON, "json", false, "print each damage, and then the summary, as a JSON object on a line")
	return cmd
}

// verifyFolder tells what is damaged in a folder, and what it holds.
func verifyFolder(ctx context.Context, dir string, asJSON bool, out, complain io.Writer) error {
	var unsaid error
	s, err := pebble.Verify(ctx, pebble.Config{Dir: dir}, func(d pebble.Damage) {
		if asJSON {
			unsaid = errors.Join(unsaid, lineOf(out, map[string]pebble.Damage{"damage": d}))
			return
		}
		_, err := fmt.Fprintf(out, "damaged: %s\n", plain(d.String()))
		unsaid = errors.Join(unsaid, err)
	})
	if err != nil {
		fmt.Fprintf(complain, "bullpen: %s\n", plain(err.Error()))
		return status(exitUsage)
	}
	if asJSON {
		unsaid = errors.Join(unsaid, lineOf(out, map[string]pebble.Summary{"summary": s}))
	} else {
		verdict := "whole"
		if s.Damages > 0 {
			verdict = plural(s.Damages, "damage")
		}
		_, err := fmt.Fprintf(out, "%s: %s; %s\n", plain(dir), verdict, holdings(s))
		unsaid = errors.Join(unsaid, err)
	}
	switch {
	case s.Damages > 0:
		return status(exitFailed)
	case unsaid != nil:
		return status(exitPipe)
	}
	return nil
}

// holdings says what a folder holds.
func holdings(s pebble.Summary) string {
	return fmt.Sprintf("%s waiting (%d for their time, %d in hand), %s, %d dead", plural(s.Jobs, "job"), s.Scheduled, s.Taken, plural(s.Outcomes, "outcome"), s.Dead)
}
