package engine

import (
	"context"
	"errors"
)

// ErrBackup says that no backup was made, and that the store goes on.
var ErrBackup = errors.New("no backup was made")

// Backuper is an engine that can copy its store while it works.
type Backuper interface {
	// Backup makes a folder that is not there yet, and that can be opened as the
	// store could when it was made: everything is in it that was confirmed before the
	// call. The folder gets its name when it is whole and survives a loss of power.
	// The error is ErrBackup where the folder is the reason.
	Backup(ctx context.Context, dir string) error
}
