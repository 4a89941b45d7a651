package cli

import (
	"io"
	"os"

	"github.com/spf13/cobra"
)

// newAsking returns the commands that talk to a daemon.
func newAsking(stdin io.Reader, stdout, stderr *os.File) []*cobra.Command {
	each := func() *remote { return newRemote(stdin, stdout, stderr) }
	return []*cobra.Command{
		newSubmit(each()), newGet(each()), newLs(each()), newLogs(each()), newCancel(each()), newRetry(each()),
		newDead(each), newBatch(each), newPool(each), newGroup(each), newSchedule(each), newTop(each()), newStatus(each()), newReload(each()),
	}
}

// The groups of commands in the help.
const (
	groupHere   = "here"
	groupJobs   = "jobs"
	groupDaemon = "daemon"
)

// groups has the group of each command in the help; other commands are listed last.
var groups = map[string]string{
	"map": groupHere, "doctor": groupHere,
	"submit": groupJobs, "get": groupJobs, "ls": groupJobs, "logs": groupJobs, "cancel": groupJobs, "retry": groupJobs, "dead": groupJobs, "batch": groupJobs,
	"serve": groupDaemon, "queue": groupDaemon, "pool": groupDaemon, "group": groupDaemon, "schedule": groupDaemon, "top": groupDaemon, "status": groupDaemon, "reload": groupDaemon,
}

// arrange sorts the commands into the groups of the help.
func arrange(root *cobra.Command) {
	root.AddGroup(
		&cobra.Group{ID: groupHere, Title: "Run tasks here:"},
		&cobra.Group{ID: groupDaemon, Title: "Run and watch a daemon:"},
		&cobra.Group{ID: groupJobs, Title: "Submit and manage jobs:"},
	)
	root.Args = onlyCommands
	for _, cmd := range root.Commands() {
		cmd.GroupID = groups[cmd.Name()]
	}
}
