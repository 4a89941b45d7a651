// Package embedded keeps the jobs of a queue in one folder of this machine, with a
// store inside the program: nothing else has to run. Import it beside package queue; a
// program that uses a server elsewhere does not, and then does not carry the store.
//
//	q, err := queue.Open(ctx, queue.Config{Store: embedded.At("jobs")})
//
// # What survives
//
// A confirmed job, and a recorded outcome, survive a loss of power: all that wait for
// that share one fdatasync(2). What waits lies on the disk; in memory there are the next
// few hundred jobs of each queue.
//
// Everything that is stored has a checksum. Damage is never handed out: the queue fails,
// and its error names the file. A write that fails ends it as well (see
// [queue.Queue.Failed]); what was confirmed before is there when it is opened again.
//
// The folder belongs to one program at a time. [queue.Queue.Backup] copies it while the
// program works; to copy it otherwise, stop the program. A folder of an earlier release,
// in which a NATS server kept the jobs, is refused with words that say how to empty it.
package embedded

import (
	"context"

	"github.com/bullpen-run/bullpen/internal/engine"
	"github.com/bullpen-run/bullpen/internal/engine/pebble"
	"github.com/bullpen-run/bullpen/queue"
)

// Store is a folder with jobs. Only Dir is needed.
type Store struct {
	// Dir is the folder; it is made if it is not there.
	Dir string
	// Reserve is how many bytes of the disk have to be free for more jobs to be
	// taken, so that those under way can end; what the store takes for a time to sort
	// itself out comes on top. Default 128 MiB; on a disk below 6.4 GB a fiftieth of
	// it, but 16 MiB at least (a quarter of the disk at most).
	Reserve int64
}

// At is the store in a folder, with everything else as it is by default.
func At(dir string) Store { return Store{Dir: dir} }

var _ queue.Store = Store{}

// Open opens the folder. It is called by queue.Open.
func (s Store) Open(ctx context.Context, o engine.Options) (engine.Engine, error) {
	if s.Dir != "" {
		if err := secure(s.Dir, o.Logger); err != nil {
			return nil, err
		}
	}
	e, err := pebble.Open(ctx, pebble.Config{Dir: s.Dir, Reserve: s.Reserve, Options: o})
	if err != nil {
		return nil, err // not e, which would be an interface that holds nil
	}
	return e, nil
}
