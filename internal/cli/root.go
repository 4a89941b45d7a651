// Package cli is the bullpen command: it parses flags, talks to people, and
// cooperates with other programs in a shell pipeline. The work is done elsewhere:
// package process has the workers (bullpen map), internal/daemon the daemon (bullpen
// serve), and package client the calls to a daemon (all other commands).
package cli

import (
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

// The exit statuses of the command.
const (
	exitOK          = 0
	exitFailed      = 1
	exitUsage       = 2
	exitStart       = 3
	exitInterrupted = 130
	exitPipe        = 141 // as for a program killed by SIGPIPE
)

// status is an exit status without a message: everything was already printed.
type status int

func (s status) Error() string { return fmt.Sprintf("exit status %d", int(s)) }

// Main runs the command with args, which do not include the program's name, and
// returns its exit status. It handles signals for the whole process while it runs.
func Main(args []string, stdin io.Reader, stdout, stderr *os.File) int {
	root := newRoot(stdin, stdout, stderr)
	root.SetArgs(args)
	cmd, err := root.ExecuteC()
	var code status
	switch {
	case err == nil:
		return exitOK
	case errors.As(err, &code):
		return int(code)
	}
	fmt.Fprintf(stderr, "bullpen: %v\nTry '%s --help'.\n", err, cmd.CommandPath())
	return exitUsage
}

// Command returns the command with all commands below it, for its manual pages and shell
// completions.
func Command() *cobra.Command { return newRoot(os.Stdin, os.Stdout, os.Stderr) }

func newRoot(stdin io.Reader, stdout, stderr *os.File) *cobra.Command {
	root := &cobra.Command{
		Use:   "bullpen",
		Short: "Run tasks in warm, isolated worker processes, here or in a daemon",
		Long: "Bullpen runs tasks in elastic pools of worker processes, which can be written in any\n" +
			"language and are isolated from each other and from the host. Use bullpen map for the\n" +
			"tasks of a pipeline. Use bullpen serve to run a daemon with durable jobs, and bullpen\n" +
			"submit to submit them.",
		Args:          cobra.NoArgs,
		SilenceErrors: true,
		SilenceUsage:  true,
		RunE:          func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.Version = version()
	root.SetVersionTemplate(versionLine())
	root.SetFlagErrorFunc(flagError)
	root.SetIn(stdin)
	root.SetOut(stdout)
	root.SetErr(stderr)
	root.AddCommand(newServe(stdout, stderr), newMap(stdin, stdout, stderr), newQueue(newRemote(stdin, stdout, stderr)), newDoctor(), newVersion())
	root.AddCommand(newAsking(stdin, stdout, stderr)...)
	arrange(root)
	return root
}

func newVersion() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := io.WriteString(cmd.OutOrStdout(), versionLine())
			return err
		},
	}
}

// versionLine returns the output of bullpen version and --version.
func versionLine() string {
	return fmt.Sprintf("bullpen %s (%s, %s/%s)\n", version(), runtime.Version(), runtime.GOOS, runtime.GOARCH)
}

// version returns the version of the module, or the revision that it was built from,
// if the build recorded it.
func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	v := info.Main.Version
	if v != "" && v != "(devel)" {
		return v
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" && s.Value != "" {
			return "devel-" + s.Value[:min(12, len(s.Value))]
		}
	}
	return "devel"
}
