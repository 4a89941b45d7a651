package pebble

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"strings"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/bloom"
)

// The memory of a store. Waiting jobs lie on the disk, so little suffices.
const (
	cacheSize    = 8 << 20
	memTableSize = 8 << 20 // less on a small disk, as logs are as large
	smallTable   = 1 << 20
	diskPart     = 64
	// memTables is how many may wait to be flushed before writers block.
	memTables = 4
	openFiles = 500
	// logFormat is a version whose log records how much of it was synced, so that damage
	// can be distinguished from a log cut off by a crash, and whose tables have checksums in their
	// footers.
	logFormat = pebble.FormatTableFormatV6
)

// pebble returns Pebble's options.
func (e *Engine) pebble() *pebble.Options {
	size := int64(memTableSize)
	if usage, err := e.folder.fs.GetDiskUsage(e.folder.dir); err == nil {
		size = min(size, max(clamp(usage.TotalBytes)/diskPart, smallTable))
	}
	o := &pebble.Options{
		FS: aside{haltFS{e.folder.fs, e, &e.files}, &e.aside}, FormatMajorVersion: logFormat,
		CacheSize: cacheSize, MemTableSize: uint64(size), LBaseMaxBytes: baseSize, MemTableStopWritesThreshold: memTables, MaxOpenFiles: openFiles,
		Logger:        &logger{log: e.log, halt: e.halt},
		EventListener: events(e.log, e.fail, e.halt),
	}
	for i := range o.Levels {
		o.Levels[i].FilterPolicy = bloom.FilterPolicy(10)
	}
	o.EnsureDefaults()
	return o
}

// logger forwards Pebble's lines. Fatalf, which would end the program, ends the engine.
type logger struct {
	log  *slog.Logger
	halt func(error)
}

func (l *logger) Infof(format string, args ...any) {
	if l.log.Enabled(context.Background(), slog.LevelDebug) {
		l.log.Debug("message of Pebble", "text", fmt.Sprintf(format, args...))
	}
}

func (l *logger) Errorf(format string, args ...any) {
	l.log.Error("message of Pebble", "text", fmt.Sprintf(format, args...))
}

func (l *logger) Fatalf(format string, args ...any) {
	for _, a := range args {
		if err, ok := a.(error); ok {
			l.halt(err)
			return
		}
	}
	l.halt(fmt.Errorf(format, args...))
}

// events returns a listener for failures. fail is called on damage, halt when Pebble
// cannot continue.
func events(log *slog.Logger, fail, halt func(error)) *pebble.EventListener {
	return &pebble.EventListener{
		BackgroundError: func(err error) {
			if !errors.Is(err, pebble.ErrCancelledCompaction) && !errors.Is(err, pebble.ErrClosed) {
				halt(err)
			}
		},
		DataCorruption: func(i pebble.DataCorruptionInfo) {
			if compacting() {
				halt(damaged(i.Path, i.Details))
			}
			fail(damaged(i.Path, i.Details))
		},
		DiskSlow: func(i pebble.DiskSlowInfo) {
			log.Warn("the disk of the store is slow", "file", i.Path, "for", i.Duration)
		},
		WriteStallBegin: func(i pebble.WriteStallBeginInfo) {
			log.Warn("writes wait for a compaction of the store", "reason", i.Reason)
		},
		WriteStallEnd: func() { log.Info("writes continue") },
	}
}

// compacting reports whether a compaction or a flush of Pebble is among the callers. Most
// read errors are panics there.
func compacting() bool {
	var callers [128]uintptr
	frames := runtime.CallersFrames(callers[:runtime.Callers(2, callers[:])])
	for {
		frame, more := frames.Next()
		if strings.HasSuffix(frame.Function, "pebble/v2.(*DB).runCompaction") {
			return true
		}
		if !more {
			return false
		}
	}
}
