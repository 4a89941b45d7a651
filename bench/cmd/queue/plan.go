package main

import (
	"context"
	"fmt"
	"regexp"
	"slices"
)

// kind says what a system stands for in the tables.
type kind uint8

const (
	ours  kind = iota
	peer       // another job queue
	floor      // no job queue: the engine or the disk alone
)

// part names what a cell needs besides this program.
type part string

const (
	nothing  part = ""
	redis    part = "redis"
	postgres part = "postgres"
	python   part = "python"
	node     part = "node"
	worker   part = "worker"
)

// system is one line of the tables.
type system struct {
	id    string
	kind  kind
	title string // with the settings that matter
	// durable says when the system confirms.
	durable string
	needs   []part
	// fsync is Redis' appendfsync.
	fsync string
	// skips names the experiments in which it takes no part.
	skips []string
	// only is not empty for a system that takes part in nothing else.
	only []string
	// open is nil for the systems whose cells are other programs.
	open func(ctx context.Context, s site) (contender, error)
}

// contender is a job queue under measurement, written in Go.
type contender interface {
	// enqueue returns when the job is as durable as the system makes it.
	enqueue(ctx context.Context, payload []byte) error
	// finish enqueues a job and returns when it has been worked; the title says
	// whether its outcome is durable then.
	finish(ctx context.Context, payload []byte) error
	close() error
}

// site is where a cell runs. The driver fills it for the process of the cell.
type site struct {
	// Folder is empty, and on the disk that is measured.
	Folder   string `json:"folder"`
	Redis    string `json:"redis,omitempty"`    // host:port
	Postgres string `json:"postgres,omitempty"` // URL
	Worker   string `json:"worker,omitempty"`   // program of the warm worker processes
	// Work says that jobs are worked, and not only enqueued.
	Work bool `json:"work"`
	// Stage is that of the experiment million.
	Stage string `json:"stage,omitempty"`
	// Idle says that single jobs are awaited on an idle system.
	Idle bool `json:"idle"`
	// started is told that the handler of a job has started, and when by the
	// monotonic clock of the machine. Nil where nobody asks.
	started func(payload []byte, at int64)
}

// experiment is one table.
type experiment struct {
	id, title, note string
	columns         []column
	// callers is how many enqueue at the same time; zero for one job each tick.
	callers int
	work    bool
}

// column is one figure of a table.
type column struct {
	key, title string
	digits     int
}

const (
	enqueue64 = "enqueue64"
	enqueue1  = "enqueue1"
	end2end64 = "end2end64"
	idle      = "idle"
	million   = "million"
)

var trip = []column{{"rate", "jobs/s", 0}, {"p50_ms", "p50 ms", 3}, {"p99_ms", "p99 ms", 3}}

func experiments() []experiment {
	return []experiment{
		{id: enqueue64, title: "Durable enqueue, 64 callers", columns: trip, callers: 64,
			note: "Each caller enqueues a job of 100 bytes, waits until it is confirmed, and enqueues the next. Nothing is worked meanwhile."},
		{id: enqueue1, title: "Durable enqueue, one caller", columns: trip, callers: 1,
			note: "The same with one caller. The disk's line is `write` and `fdatasync` of 100 bytes at the end of a file on the same disk."},
		{id: end2end64, title: "Enqueue to outcome, 64 callers", columns: trip, callers: 64, work: true,
			note: "Each caller enqueues a job that does nothing, waits until it has been worked, and enqueues the next: 64 jobs are under way all the time."},
		{id: idle, title: "Idle: enqueue to start", columns: []column{{"p50_ms", "p50 ms", 3}, {"p99_ms", "p99 ms", 3}, {"most_ms", "most ms", 3}}, work: true,
			note: "One job every 20 ms on a system that does nothing else: from the call that enqueues it until its handler runs, over 500 jobs."},
		{id: million, title: "A million jobs that wait", work: false, columns: []column{

			{"jobs", "jobs", 0}, {"enqueue_rate", "enqueued/s", 0}, {"disk_mb", "on disk MB", 0}, {"before_mb", "resident MB, empty", 0},
			{"rss_mb", "with them", 0}, {"needed_mb", "of which needed", 0}, {"stop_s", "stop s", 2},
			{"clean_s", "start s", 2}, {"clean_rss_mb", "then resident MB", 0}, {"killed_s", "start s after SIGKILL", 2}, {"killed_rss_mb", "then resident MB", 0}},
			note: "Jobs of 100 bytes are enqueued in bulk and not worked. *Needed* is what stays resident when free memory is given back to the kernel. A start counts from opening the store until the handler of the first job runs, in a new process; the process before it stopped well, or was killed while it enqueued more."},
	}
}

// systems lists all contenders.
func systems() []system {
	all := bullpens()
	all = append(all, engines()...)
	all = append(all, asynqs()...)
	all = append(all, rivers()...)
	const (
		celery = "Celery, prefork 2, late acks, prefetch 32, results in Redis; callers are 16 threads in each of 4 processes, and wait by `get()`"
		bullmq = "BullMQ, 100 concurrent, in one process with the callers; its event that the job is complete counts"
	)
	return append(all,
		system{id: "celery", kind: peer, durable: "AOF always", needs: []part{redis, python}, fsync: "always", skips: []string{million}, title: celery},
		system{id: "celery-everysec", kind: peer, durable: "AOF everysec", needs: []part{redis, python}, fsync: "everysec", only: []string{end2end64}, title: celery},
		system{id: "bullmq", kind: peer, durable: "AOF always", needs: []part{redis, node}, fsync: "always", skips: []string{million}, title: bullmq},
		system{id: "bullmq-everysec", kind: peer, durable: "AOF everysec", needs: []part{redis, node}, fsync: "everysec", only: []string{end2end64}, title: bullmq},
		system{id: "disk", kind: floor, durable: "fdatasync", title: "the disk alone", only: []string{enqueue1}, open: openDisk})
}

// cell is one system in one experiment.
type cell struct {
	system     system
	experiment experiment
}

func (c cell) id() string { return c.system.id + "/" + c.experiment.id }

// takes says whether the system takes part in the experiment.
func (s system) takes(id string) bool {
	if len(s.only) > 0 {
		return slices.Contains(s.only, id)
	}
	return !slices.Contains(s.skips, id)
}

// plan gives the cells whose names match.
func plan(only *regexp.Regexp) (cells []cell) {
	for _, e := range experiments() {
		for _, s := range systems() {
			if c := (cell{s, e}); s.takes(e.id) && only.MatchString(c.id()) {
				cells = append(cells, c)
			}
		}
	}
	return cells
}

func lookUp(id string) (cell, error) {
	for _, c := range plan(regexp.MustCompile("")) {
		if c.id() == id {
			return c, nil
		}
	}
	return cell{}, fmt.Errorf("there is no cell %q: see -list", id)
}
