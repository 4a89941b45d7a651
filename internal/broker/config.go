package broker

import (
	"errors"
	"fmt"
	"log/slog"
)

// Sync says how a message is made durable before it is confirmed.
type Sync uint8

const (
	// SyncAuto lets one call of syncfs confirm all messages that wait, where
	// this is known to work, and is SyncAlways elsewhere.
	SyncAuto Sync = iota
	// SyncAlways lets the server sync each message by itself: safe everywhere
	// and slow.
	SyncAlways
)

// Config says where the store is and how it is kept. Only Dir is needed.
type Config struct {
	// Dir is the folder of the store. It is made if it is not there, and belongs
	// to one program at a time.
	Dir string
	// Sync is how messages are made durable.
	Sync Sync
	// Reserve is how many bytes of the disk have to be free for [Broker.Room] to
	// let more jobs in. Default 128 MiB; on a disk below
	// 6.4 GB a fiftieth of it, but 16 MiB at least (a quarter of the disk at most).
	Reserve int64
	// Logger gets what happens; nil logs nothing.
	Logger *slog.Logger

	// instead has what tests put in the place of the system; nil is the system.
	instead *system
}

func (c Config) withDefaults() Config {
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.instead == nil {
		c.instead = thisSystem()
	}
	return c
}

// check reports all faults of c at once.
func (c Config) check() error {
	var errs []error
	if c.Dir == "" {
		errs = append(errs, errors.New("Dir is empty: name the folder of the store"))
	}
	if c.Sync > SyncAlways {
		errs = append(errs, fmt.Errorf("Sync is %d: use SyncAuto or SyncAlways", c.Sync))
	}
	if c.Reserve < 0 {
		errs = append(errs, fmt.Errorf("Reserve is %d: say how many bytes have to stay free, or 0 for the default", c.Reserve))
	}
	return errors.Join(errs...)
}
