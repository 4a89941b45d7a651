package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"time"
)

// answer is what the process that takes a cell prints.
type answer struct {
	Metrics metrics `json:"metrics,omitempty"`
	Error   string  `json:"error,omitempty"`
}

// child measures the cell that o names in this process and prints its figures.
func child(ctx context.Context, o options) error {
	var a answer
	m, err := takeHere(ctx, o)
	if err != nil {
		a.Error = err.Error()
	} else {
		a.Metrics = m
	}
	return json.NewEncoder(os.Stdout).Encode(a)
}

func takeHere(ctx context.Context, o options) (metrics, error) {
	c, err := lookUp(o.cell)
	if err != nil {
		return nil, err
	}
	var s site
	if err := json.Unmarshal([]byte(o.site), &s); err != nil {
		return nil, fmt.Errorf("-site: %w", err)
	}
	if c.experiment.times > 0 {
		return c.waiting(ctx, o, s)
	}
	return c.take(ctx, s, o.span)
}

// take measures the cell, whatever of the contender, which must close well too.
func (c cell) take(ctx context.Context, s site, span time.Duration) (m metrics, err error) {
	all := newStarts()
	if s.Idle {
		s.started = all.started
	}
	who, err := c.system.open(ctx, s)
	if err != nil {
		return nil, fmt.Errorf("open: %w", err)
	}
	defer func() { err = errors.Join(err, who.close()) }()
	if s.Idle {
		return all.singleJobs(ctx, idlePeriod, who)
	}
	do := who.enqueue
	if c.experiment.work {
		do = who.finish
	}
	m, err = closedLoop(ctx, c.experiment.callers, span, func(ctx context.Context, caller int) error {
		return do(ctx, payload(caller))
	})
	if c.system.kind == peer {
		delete(m, "cpu_us") // its server's time is not in it
	}
	if more, ok := who.(interface{ figures() metrics }); ok && err == nil {
		maps.Copy(m, more.figures())
	}
	return m, err
}

// disk is what one sync costs.
type disk struct {
	file *os.File
	// size is that of what the file has already, and is written over again and again;
	// zero for a file that grows.
	size, at int64
}

// written is how much a file has that is written over, in bytes.
const written = 1 << 20

func openDisk(again bool) func(context.Context, site) (contender, error) {
	return func(_ context.Context, s site) (contender, error) {
		f, err := os.Create(filepath.Join(s.Folder, "log"))
		if err != nil || !again {
			return &disk{file: f}, err
		}
		if _, err = f.Write(make([]byte, written)); err == nil {
			err = f.Sync()
		}
		if err != nil {
			return nil, errors.Join(err, f.Close())
		}
		return &disk{file: f, size: written}, nil
	}
}

func (d *disk) enqueue(_ context.Context, payload []byte) error {
	if d.size > 0 && d.at+int64(len(payload)) > d.size {
		d.at = 0
	}
	n, err := d.file.WriteAt(payload, d.at)
	if err != nil {
		return err
	}
	d.at += int64(n)
	return datasync(d.file)
}

func (d *disk) finish(ctx context.Context, payload []byte) error { return d.enqueue(ctx, payload) }

func (d *disk) close() error { return d.file.Close() }
