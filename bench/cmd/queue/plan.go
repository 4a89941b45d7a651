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
	// storesOnly says that it takes part in runs of -stores only.
	storesOnly bool
	// open is nil for the systems whose cells are other programs.
	open func(ctx context.Context, s site) (contender, error)
	// hoard opens its store in the experiments million and tenmillion; nil where it takes
	// no part in them.
	hoard func(ctx context.Context, s site) (hoard, error)
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
	// Stage is that of the experiments million and tenmillion, and Least how many jobs
	// there must be.
	Stage string `json:"stage,omitempty"`
	Least int    `json:"least,omitempty"`
	// Beside is how many jobs wait in a bare store, with an index, while others come and
	// go; zero for no index.
	Beside int `json:"beside,omitempty"`
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
	// times is how many times the jobs of -jobs wait; zero for none.
	times int
	// beside is for bare stores only, with a tenth of the jobs of -jobs beside those that
	// come and go.
	beside bool
}

// jobs is how many jobs wait.
func (e experiment) jobs(o options) int { return e.times * o.jobs }

// column is one figure of a table.
type column struct {
	key, title string
	digits     int
	// stores says that it is shown in runs of -stores only.
	stores bool
}

const (
	enqueue64  = "enqueue64"
	enqueue1   = "enqueue1"
	end2end64  = "end2end64"
	end2end1   = "end2end1"
	beside64   = "beside64"
	idle       = "idle"
	million    = "million"
	tenmillion = "tenmillion"
)

var (
	trip = []column{{key: "rate", title: "jobs/s"}, {key: "p50_ms", title: "p50 ms", digits: 3}, {key: "p99_ms", title: "p99 ms", digits: 3},
		{key: "cpu_us", title: "processor µs a job", digits: 1}, {key: "per_commit", title: "changes a commit", digits: 1, stores: true}}
	waits = []column{{key: "jobs", title: "jobs"}, {key: "enqueue_rate", title: "enqueued/s"}, {key: "kept", title: "the last ones' rate by the first ones'", digits: 2},
		{key: "disk_mb", title: "on disk MB"}, {key: "before_mb", title: "resident MB, empty"}, {key: "rss_mb", title: "with them"},
		{key: "own_mb", title: "of which not pages of files", stores: true}, {key: "needed_mb", title: "of which needed"}, {key: "stop_s", title: "stop s", digits: 2},
		{key: "clean_s", title: "start s", digits: 3}, {key: "clean_rss_mb", title: "then resident MB"},
		{key: "killed_s", title: "start s after SIGKILL", digits: 3}, {key: "killed_rss_mb", title: "then resident MB"}}
)

// bareEnd says what a job is where there is no job queue.
const bareEnd = "On a bare store nobody works: a job is put, and when that is confirmed its outcome is put and the job deleted, in one commit."

const waiting = "Jobs of 100 bytes are enqueued in bulk and not worked. *Needed* is what stays resident when free memory is given back to the kernel. A start counts from opening the store until the handler of the first job runs, in a new process; the process before it stopped well, or was killed while it enqueued more. A bare store has an index of the jobs' subjects too; its start ends when the first job has been read."

func experiments() []experiment {
	return []experiment{
		{id: enqueue64, title: "Durable enqueue, 64 callers", columns: trip, callers: 64,
			note: "Each caller enqueues a job of 100 bytes, waits until it is confirmed, and enqueues the next. Nothing is worked meanwhile."},
		{id: enqueue1, title: "Durable enqueue, one caller", columns: trip, callers: 1,
			note: "The same with one caller. The disk's line is `write` and `fdatasync` of 100 bytes at the end of a file on the same disk."},
		{id: end2end64, title: "Enqueue to outcome, 64 callers", columns: trip, callers: 64, work: true,
			note: "Each caller enqueues a job that does nothing, waits until it has been worked, and enqueues the next: 64 jobs are under way all the time. " + bareEnd},
		{id: end2end1, title: "Enqueue to outcome, one caller", columns: trip, callers: 1, work: true,
			note: "The same with one caller: one job is under way, and nobody to share a sync with. " + bareEnd},
		{id: beside64, title: "The same with an index, beside jobs that wait, 64 callers", columns: trip, callers: 64, work: true, beside: true,
			note: "As with 64 callers above, but each job has an entry in an index under a key that is a hash, which its end takes away too; and 100 000 jobs with such entries wait in the store (a tenth of `-jobs`)."},
		{id: idle, title: "Idle: enqueue to start", columns: []column{{key: "p50_ms", title: "p50 ms", digits: 3}, {key: "p99_ms", title: "p99 ms", digits: 3}, {key: "most_ms", title: "most ms", digits: 3}}, work: true,
			note: "One job every 20 ms on a system that does nothing else: from the call that enqueues it until its handler runs, over 500 jobs."},
		{id: million, title: "A million jobs that wait", columns: waits, times: 1, note: waiting},
		{id: tenmillion, title: "Ten million jobs that wait", columns: waits, times: 10, note: waiting},
	}
}

// diskAlone is the system that is no store.
const diskAlone = "disk"

// systems lists all contenders.
func systems() []system {
	all := bullpens()
	all = append(all, stores()...)
	all = append(all, engines()...)
	all = append(all, asynqs()...)
	all = append(all, rivers()...)
	const (
		celery = "Celery, prefork 2, late acks, prefetch 32, results in Redis; callers are 16 threads in each of 4 processes, and wait by `get()`"
		bullmq = "BullMQ, 100 concurrent, in one process with the callers; its event that the job is complete counts"
	)
	return append(all,
		system{id: "celery", kind: peer, durable: "AOF always", needs: []part{redis, python}, fsync: "always", skips: []string{end2end1}, title: celery},
		system{id: "celery-everysec", kind: peer, durable: "AOF everysec", needs: []part{redis, python}, fsync: "everysec", only: []string{end2end64}, title: celery},
		system{id: "bullmq", kind: peer, durable: "AOF always", needs: []part{redis, node}, fsync: "always", skips: []string{end2end1}, title: bullmq},
		system{id: "bullmq-everysec", kind: peer, durable: "AOF everysec", needs: []part{redis, node}, fsync: "everysec", only: []string{end2end64}, title: bullmq},
		system{id: diskAlone, kind: floor, durable: "fdatasync", title: "the disk alone", only: []string{enqueue1}, open: openDisk(false)},
		system{id: "disk-again", kind: floor, storesOnly: true, durable: "fdatasync", title: "the same over bytes that the file has already", only: []string{enqueue1}, open: openDisk(true)})
}

// cell is one system in one experiment.
type cell struct {
	system     system
	experiment experiment
}

func (c cell) id() string { return c.system.id + "/" + c.experiment.id }

// takes says whether the system takes part in the experiment.
func (s system) takes(e experiment) bool {
	if e.times > 0 || e.beside {
		return s.hoard != nil && (!e.beside || s.bare())
	}
	if len(s.only) > 0 {
		return slices.Contains(s.only, e.id)
	}
	return !slices.Contains(s.skips, e.id)
}

// choice says which cells a run has.
type choice struct {
	only *regexp.Regexp
	// stores is for the bare stores and the disk alone, ten for the experiment tenmillion
	// too, and all for whatever there is.
	stores, ten, all bool
}

func (w choice) has(c cell) bool {
	switch {
	case w.all:
		return true
	case w.stores && !c.system.bare(), !w.stores && (c.system.storesOnly || c.experiment.beside), !w.ten && c.experiment.id == tenmillion:
		return false
	default:
		return w.only.MatchString(c.id())
	}
}

// bare tells the systems of runs of -stores: what compares a store with others.
func (s system) bare() bool { return s.storesOnly || s.id == pebbleStore || s.id == diskAlone }

// plan gives the cells of a choice.
func plan(w choice) (cells []cell) {
	for _, e := range experiments() {
		for _, s := range systems() {
			if c := (cell{s, e}); s.takes(e) && w.has(c) {
				cells = append(cells, c)
			}
		}
	}
	return cells
}

func lookUp(id string) (cell, error) {
	for _, c := range plan(choice{all: true}) {
		if c.id() == id {
			return c, nil
		}
	}
	return cell{}, fmt.Errorf("there is no cell %q: see -list", id)
}
