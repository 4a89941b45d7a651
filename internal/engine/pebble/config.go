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

// DefaultLease is the lease if Options does not set one.
const DefaultLease = 30 * time.Second

// Config configures a store. Only Dir is required.
type Config struct {
	// Dir is the folder of the store. It is created if it does not exist, and belongs to
	// one program at a time.
	Dir string
	// FS is the file system of Dir; nil is that of the operating system.
	FS vfs.FS
	// Reserve is how many bytes of the disk must be free for the store to accept jobs.
	// Default 128 MiB. On a disk below 6.4 GB it is a fiftieth of the disk, but at least
	// 16 MiB (and at most a quarter of the disk).
	Reserve int64
	// Check returns what is wrong with the content of a message; Verify calls it. Nil
	// accepts everything. It must change nothing.
	Check func(engine.Message) error
	// Options are the options common to all engines.
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
			faults = append(faults, fmt.Errorf("%s is negative: use 0 for the default, or a positive value", bound.name))
		}
	}
	return errors.Join(faults...)
}
