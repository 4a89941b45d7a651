package pebble

import (
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/bullpen-run/bullpen/internal/engine"
)

// DefaultLease is the lease when Options name none.
const DefaultLease = 30 * time.Second

// Config says where the store is and how it is kept. Only Dir is needed.
type Config struct {
	// Dir is the folder of the store. It is made if it is not there, and belongs
	// to one program at a time.
	Dir string
	// FS is the file system of Dir; nil is that of the machine.
	FS vfs.FS
	// Reserve is how many bytes of the disk have to be free for more jobs to be
	// taken. Default 128 MiB; on a disk below 6.4 GB a fiftieth of it, but 16 MiB
	// at least (a quarter of the disk at most).
	Reserve int64
	// Check says what is wrong with what a message holds, to Verify; nil finds nothing
	// wrong. It changes nothing.
	Check func(engine.Message) error
	// Options are those of every engine.
	Options engine.Options
}

func (c Config) withDefaults() Config {
	if c.FS == nil {
		c.FS = vfs.Default
	}
	if c.Options.Lease == 0 {
		c.Options.Lease = DefaultLease
	}
	if c.Options.Logger == nil {
		c.Options.Logger = slog.New(slog.DiscardHandler)
	}
	return c
}

// check reports all faults of c at once.
func (c Config) check() error {
	var faults []error
	if c.Dir == "" {
		faults = append(faults, errors.New("Dir is empty: name the folder of the store"))
	}
	o := c.Options
	if strings.Trim(o.Namespace, "abcdefghijklmnopqrstuvwxyz0123456789-_") != "" {
		faults = append(faults, fmt.Errorf("Namespace %q: use lower-case letters, digits, \"-\" and \"_\" only", o.Namespace))
	}
	for _, bound := range []struct {
		name  string
		value int64
	}{
		{"Reserve", c.Reserve}, {"Lease", int64(o.Lease)}, {"Jobs", o.Jobs},
		{"Outcomes", o.Outcomes}, {"OutcomeCount", o.OutcomeCount}, {"OutcomeAge", int64(o.OutcomeAge)},
		{"Dead", o.Dead}, {"DeadAge", int64(o.DeadAge)},
	} {
		if bound.value < 0 {
			faults = append(faults, fmt.Errorf("%s is negative: leave it 0 for no bound, or the usual one", bound.name))
		}
	}
	return errors.Join(faults...)
}
