package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/bullpen-run/bullpen/internal/engine"
	"github.com/bullpen-run/bullpen/internal/engine/transfer"
)

// transferFlags are the flags common to copy, export and import.
type transferFlags struct {
	asJSON    bool
	namespace string
	replicas  int
}

// command returns a command that works on stores.
func (t *transferFlags) command(cmd *cobra.Command, do func(cmd *cobra.Command, args []string) error) *cobra.Command {
	cmd.RunE = do
	cmd.SetFlagErrorFunc(flagError)
	cmd.Flags().BoolVar(&t.asJSON, "json", false, "print the summary as a JSON object")
	cmd.Flags().StringVar(&t.namespace, "namespace", "", "the queue.namespace of the daemons (default main, or as in the configuration file)")
	return cmd
}

// report prints what was done, or why it failed.
func (t *transferFlags) report(done string, s transfer.Summary, err error, out, complain io.Writer) error {
	switch {
	case err == nil && t.asJSON:
		err = lineOf(out, map[string]transfer.Summary{"summary": s})
	case err == nil:
		_, err = fmt.Fprintf(out, "%s: %s (%d scheduled), %s, %d dead, %s, %d paused\n", plain(done),
			plural(s.Jobs, "job"), s.Scheduled, plural(s.Outcomes, "outcome"), s.Dead, plural(s.State, "record"), s.Paused)
	default:
		fmt.Fprintf(complain, "bullpen: %s\n", plain(err.Error()))
		if errors.As(err, new(usageError)) {
			return status(exitUsage)
		}
		return status(exitFailed)
	}
	if err != nil {
		return status(exitPipe)
	}
	return nil
}

func newQueueCopy() *cobra.Command {
	var t transferFlags
	var from, to string
	cmd := t.command(&cobra.Command{
		Use: "copy --from STORE --to STORE", Short: "Copy all jobs of a store to another one, between folders and NATS",
		Long: "Copy copies everything in a store to an empty one: queued and scheduled jobs, outcomes,\n" +
			"dead jobs, keys, batches, chains, schedules, limits, and which queues are paused. Use it to\n" +
			"move a queue from a folder to a NATS cluster, or back.\n\n" + aboutStores + "\n\n" +
			"A target folder must not exist, a target server must hold nothing of this namespace.\n\n" +
			"The source stays unchanged. Start daemons on one of the two stores only, or the jobs run\n" +
			"twice. Jobs that were running when their daemon was killed run again. Outcomes and dead jobs\n" +
			"are kept, counted from now, as long as new ones.\n\n" +
			"Exit status: 0 copied; 1 not copied, or not all; 2 wrong usage.",
		Example: "  bullpen queue copy --from /var/lib/bullpen/queue --to nats://nats-0:4222,nats://nats-1:4222,nats://nats-2:4222 --replicas 3\n" +
			"  bullpen queue copy --from cluster.yaml --to jobs",
		Args: wants(0, 0, "bullpen queue copy --from STORE --to STORE"),
	}, func(cmd *cobra.Command, _ []string) error {
		return onFolder(func(ctx context.Context) error {
			s, err := t.copy(ctx, from, to)
			return t.report("copied to "+to, s, err, cmd.OutOrStdout(), cmd.ErrOrStderr())
		})
	})
	cmd.Flags().StringVar(&from, "from", "", "the source store")
	cmd.Flags().StringVar(&to, "to", "", "the target store")
	cmd.Flags().IntVar(&t.replicas, "replicas", 0, "number of servers that hold a copy of each job in the target: 1, 3 or 5 (default 1, or as in the configuration file)")
	return cmd
}

func (t *transferFlags) copy(ctx context.Context, from, to string) (s transfer.Summary, err error) {
	source, err := storeOf(from, t.namespace, 0)
	if err != nil {
		return s, named("--from", err)
	}
	target, err := storeOf(to, t.namespace, t.replicas)
	if err != nil {
		return s, named("--to", err)
	}
	return source.read(ctx, func(from engine.Engine) (transfer.Summary, error) {
		return target.fill(ctx, func(to engine.Engine) (transfer.Summary, error) { return transfer.Copy(ctx, from, to) })
	})
}

// named adds the name of the flag to an error.
func named(flag string, err error) error { return usageError{fmt.Errorf("%s: %w", flag, err)} }

func newQueueExport() *cobra.Command {
	var t transferFlags
	return t.command(&cobra.Command{
		Use: "export STORE [NEWFILE]", Short: "Write all jobs of a store as lines of JSON",
		Long: "Export writes everything in a store as lines of JSON, to a new file or to standard output.\n\n" + aboutStores + "\n\n" +
			"Each line has the stream of a record (jobs, outcomes, dead, state), its subject, with the\n" +
			"queue, the priority and the id of a job, and the stored record as data, in base64. The last\n" +
			"line has the counts, so that an import notices a truncated file.\n\n" +
			"Exit status: 0 exported; 1 not exported, or not all; 2 wrong usage.",
		Example: "  bullpen queue export /var/lib/bullpen/queue | zstd > jobs.zst",
		Args:    wants(1, 2, "bullpen queue export STORE [NEWFILE]"),
	}, func(cmd *cobra.Command, args []string) error {
		return onFolder(func(ctx context.Context) error {
			if len(args) == 1 || args[1] == "-" {
				s, err := t.export(ctx, args[0], cmd.OutOrStdout())
				return t.report("exported", s, err, cmd.ErrOrStderr(), cmd.ErrOrStderr())
			}
			s, err := t.exportTo(ctx, args[0], args[1])
			return t.report("exported to "+args[1], s, err, cmd.OutOrStdout(), cmd.ErrOrStderr())
		})
	})
}

func (t *transferFlags) export(ctx context.Context, from string, w io.Writer) (transfer.Summary, error) {
	source, err := storeOf(from, t.namespace, 0)
	if err != nil {
		return transfer.Summary{}, err
	}
	return source.read(ctx, func(e engine.Engine) (transfer.Summary, error) { return transfer.Export(ctx, e, w) })
}

// exportTo exports to a file, and removes the file if that fails.
func (t *transferFlags) exportTo(ctx context.Context, from, path string) (s transfer.Summary, err error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600) // as private as the folder
	if err != nil {
		return s, usageError{fmt.Errorf("name a new file: %w", err)}
	}
	if s, err = t.export(ctx, from, f); err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		err = errors.Join(err, os.Remove(path))
	}
	return s, err
}

func newQueueImport() *cobra.Command {
	var t transferFlags
	cmd := t.command(&cobra.Command{
		Use: "import FILE STORE", Short: "Fill an empty store with the jobs of an export",
		Long: "Import loads what bullpen queue export has written into a store; FILE - is standard input.\n\n" + aboutStores + "\n\n" +
			"A folder must not exist, a server must hold nothing of this namespace.\n\n" +
			"Exit status: 0 imported; 1 not imported, or not all; 2 wrong usage.",
		Example: "  zstdcat jobs.zst | bullpen queue import - jobs",
		Args:    wants(2, 2, "bullpen queue import FILE STORE"),
	}, func(cmd *cobra.Command, args []string) error {
		return onFolder(func(ctx context.Context) error {
			s, err := t.imports(ctx, args[0], cmd.InOrStdin(), args[1])
			return t.report("imported to "+args[1], s, err, cmd.OutOrStdout(), cmd.ErrOrStderr())
		})
	})
	cmd.Flags().IntVar(&t.replicas, "replicas", 0, "number of servers that hold a copy of each job: 1, 3 or 5 (default 1, or as in the configuration file)")
	return cmd
}

func (t *transferFlags) imports(ctx context.Context, path string, in io.Reader, to string) (s transfer.Summary, err error) {
	target, err := storeOf(to, t.namespace, t.replicas)
	if err != nil {
		return s, err
	}
	if path != "-" {
		f, err := os.Open(path)
		if err != nil {
			return s, usageError{err}
		}
		defer f.Close()
		in = f
	}
	return target.fill(ctx, func(e engine.Engine) (transfer.Summary, error) {
		s, err := transfer.Import(ctx, bufio.NewReaderSize(in, 1<<20), e)
		if err != nil && path != "-" {
			err = fmt.Errorf("%s: %w", path, err)
		}
		return s, err
	})
}
