package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/signal"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/bullpen-run/bullpen/client"
	"github.com/bullpen-run/bullpen/internal/engine/pebble"
	records "github.com/bullpen-run/bullpen/internal/queue/record"
)

// newQueue returns bullpen queue and its commands.
func newQueue(r *remote) *cobra.Command {
	queue := groupOf("queue", "Back up, verify, restore and move the jobs of a daemon", "queues")
	queue.AddCommand(newQueueBackup(r), newQueueVerify(), newQueueRestore(), newQueueCopy(), newQueueExport(), newQueueImport())
	return queue
}

func newQueueBackup(r *remote) *cobra.Command {
	return r.command(verb{
		use: "backup NEWFOLDER", short: "Back up all jobs of a running daemon to a folder",
		long: "Backup makes the daemon copy its whole queue to a new folder on the daemon's machine. The\n" +
			"copy has every job that was confirmed before. The folder gets its name when it is complete;\n" +
			"a crash leaves NEWFOLDER.unfinished. On the file system of the queue it takes a moment, as\n" +
			"most files are linked. A relative path starts at the current folder of this command.\n\n" +
			"When no daemon runs, copy the folder with cp -a.",
		example: "  bullpen queue backup /var/backups/bullpen-$(date +%F)",
		args:    wants(1, 1, "bullpen queue backup NEWFOLDER"),
		do: func(ctx context.Context, c *client.Client, args []string) error {
			if args[0] == "" {
				return usageError{errors.New("the name of the folder is empty")}
			}
			dir, err := filepath.Abs(args[0])
			if err != nil {
				return err
			}
			if err := c.Backup(ctx, dir); err != nil {
				return err
			}
			if r.asJSON {
				return r.object(map[string]string{"dir": dir})
			}
			r.printf("all jobs and outcomes are in %s\n", plain(dir))
			return nil
		},
	})
}

// onFolder runs a command that works on a local folder, until it ends or a signal
// arrives.
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
		Use: "verify FOLDER", Short: "Check a folder with jobs, which no daemon has open, for damage",
		Long: "Verify reads a whole folder in which a daemon keeps its jobs (queue.dir), or a backup. It\n" +
			"checks the checksums of all files and blocks, and whether jobs, indexes and counts agree. It\n" +
			"changes nothing, reports each damage, with the id of the job where it is known, and continues\n" +
			"where it can. No daemon may have the folder open.\n\n" +
			"Exit status: 0 no damage; 1 something is damaged; 2 the folder could not be verified.",
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

// damages prints damaged records.
type damages struct {
	asJSON bool
	out    io.Writer
	err    error // error of writing
}

func (d *damages) report(one pebble.Damage) {
	if d.asJSON {
		d.err = errors.Join(d.err, lineOf(d.out, map[string]pebble.Damage{"damage": one}))
		return
	}
	_, err := fmt.Fprintf(d.out, "damaged: %s\n", plain(one.String()))
	d.err = errors.Join(d.err, err)
}

// summary prints what a folder holds, and returns the exit status.
func (d *damages) summary(dir, verdict string, s pebble.Summary) error {
	if d.asJSON {
		d.err = errors.Join(d.err, lineOf(d.out, map[string]pebble.Summary{"summary": s}))
	} else {
		if s.Damages > 0 {
			verdict = plural(s.Damages, "damage")
		}
		_, err := fmt.Fprintf(d.out, "%s: %s; %s\n", plain(dir), verdict, holdings(s))
		d.err = errors.Join(d.err, err)
	}
	switch {
	case s.Damages > 0:
		return status(exitFailed)
	case d.err != nil:
		return status(exitPipe)
	}
	return nil
}

// verifyFolder prints what is damaged in a folder, and what it holds.
func verifyFolder(ctx context.Context, dir string, asJSON bool, out, complain io.Writer) error {
	d := damages{asJSON: asJSON, out: out}
	s, err := pebble.Verify(ctx, pebble.Config{Dir: dir, Check: records.Check}, d.report)
	if err != nil {
		fmt.Fprintf(complain, "bullpen: %s\n", plain(err.Error()))
		return status(exitUsage)
	}
	return d.summary(dir, "no damage", s)
}

func newQueueRestore() *cobra.Command {
	asJSON := false
	cmd := &cobra.Command{
		Use: "restore BACKUP FOLDER", Short: "Verify a backup and copy it to a new folder",
		Long: "Restore verifies a backup, as bullpen queue verify does, and copies it to a new folder, for\n" +
			"a daemon to use as queue.dir. It refuses a damaged backup. The backup stays unchanged.\n\n" +
			"A backup does not know what happened after it was made: jobs that were waiting or running\n" +
			"then will run, even if they have run since.\n\n" +
			"Exit status: 0 restored; 1 the backup is damaged; 2 it could not be restored.",
		Args: wants(2, 2, "bullpen queue restore BACKUP FOLDER"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return onFolder(func(ctx context.Context) error {
				return restoreFolder(ctx, args[0], args[1], asJSON, cmd.OutOrStdout(), cmd.ErrOrStderr())
			})
		},
	}
	cmd.SetFlagErrorFunc(flagError)
	cmd.Flags().BoolVar(&asJSON, "json", false, "print each damage, and then the summary, as a JSON object on a line")
	return cmd
}

// restoreFolder restores a backup and prints what it holds.
func restoreFolder(ctx context.Context, backup, dir string, asJSON bool, out, complain io.Writer) error {
	d := damages{asJSON: asJSON, out: out}
	s, err := pebble.Restore(ctx, pebble.Config{Dir: backup}, dir, d.report)
	if err != nil {
		fmt.Fprintf(complain, "bullpen: %s\n", plain(err.Error()))
		if errors.Is(err, pebble.ErrDamaged) {
			return d.summary(backup, "", s)
		}
		return status(exitUsage)
	}
	if s.Taken > 0 {
		fmt.Fprintf(complain, "bullpen: %s running at the time of the backup, and will run again\n", were(s.Taken))
	}
	return d.summary(dir, "restored", s)
}

// were formats a number of jobs with the verb.
func were(n int64) string {
	if n == 1 {
		return "1 job was"
	}
	return fmt.Sprintf("%d jobs were", n)
}

// holdings describes what a folder holds.
func holdings(s pebble.Summary) string {
	return fmt.Sprintf("%s (%d scheduled, %d running), %s, %d dead", plural(s.Jobs, "job"), s.Scheduled, s.Taken, plural(s.Outcomes, "outcome"), s.Dead)
}
