package queue

import (
	"context"
	"errors"
	"fmt"

	"github.com/bullpen-run/bullpen/internal/engine"
	"github.com/bullpen-run/bullpen/internal/queue/jobs"
)

// ErrBackup says that no backup was made. The queue goes on.
var ErrBackup = engine.ErrBackup

// Backup copies the queue to a new folder while it works: all jobs and outcomes that
// were confirmed before the call. The folder gets its name when it is complete and
// survives a loss of power. It can be opened like the queue's own folder; jobs that
// were running at the time of the backup run again. If the folder is on the same file
// system, most files are hard links and the call takes a moment.
//
// Only a queue in a folder (package queue/embedded) supports it; others return
// errors.ErrUnsupported.
func (q *Queue) Backup(ctx context.Context, dir string) error {
	b, ok := q.jobs.Engine.(engine.Backuper)
	if !ok {
		return fmt.Errorf("%w: %w: the jobs of this queue are %s", ErrBackup, errors.ErrUnsupported, q.whereElse(ctx))
	}
	if dir == "" {
		return fmt.Errorf("%w: the folder has no name", ErrBackup)
	}
	err := b.Backup(ctx, dir)
	if errors.Is(err, ErrBackup) {
		return err
	}
	return jobs.StoreError(err)
}

// whereElse says where jobs lie that are in no folder, and how they are saved there.
func (q *Queue) whereElse(ctx context.Context) string {
	if i, err := q.jobs.Engine.Info(ctx); err == nil && i.Kind == "memory" {
		return "in the memory of this program: there is nothing to save"
	}
	return `on a NATS server: save its streams with "nats stream backup" or "nats account backup"`
}
