package main

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// kind says what a system stands for in the tables.
type kind string

const (
	ours  kind = "ours"
	peer  kind = "peer"  // a pool library
	floor kind = "floor" // no pool library: what Go and x/sync give
)

// system is one line of the tables.
type system struct {
	ID    string
	Title string
	Kind  kind
	// makers give the work of each kind of experiment that the system takes part
	// in: one, many, trip, group, deadline, queued, futures, idle.
	makers map[string]maker
}

// shape is what an experiment asks of a contender.
type shape struct {
	// size is the number of tasks in a group, or of what is kept in memory.
	size int
	// producers is how many goroutines submit.
	producers int
	// arg gives the argument of task i of a group; factorials take it to 20 and
	// beyond, where the product wraps around.
	arg func(i int) uint64
}

// args gives the arguments of one group and the sum of the right results.
func (s shape) args(f func(uint64) uint64) (args []uint64, want uint64) {
	args = make([]uint64, s.size)
	for i := range args {
		args[i] = s.arg(i)
		want += f(args[i])
	}
	return args, want
}

// work is what one cell repeats.
type work struct {
	// run does n units of tasks each, and looks at their results.
	run   func(n int) error
	tasks int
	// weigh is set, instead of run, where memory is measured: it gives the bytes
	// for each of the n things that it keeps.
	weigh func() (bytes float64, n int, err error)
	close func()
}

type maker func(shape) (work, error)

// experiment is one column of figures.
type experiment struct {
	ID string
	// Maker is the key in system.makers.
	Maker string
	Shape shape
	// Most is the largest GOMAXPROCS only: memory does not depend on it.
	Most bool
}

// sizes are those of the groups. 1, 100 and 1024 are those of the article of 2023.
var sizes = []int{1, 4, 16, 64, 100, 256, 1024, 4096}

var producers = []int{1, 2, 4, 16}

const (
	// workers of every pool.
	workers = 4
	// queue is the length of every bounded queue.
	queue = 1024
	// factorial is the argument of the groups' tasks.
	factorial = 50
	// deadlineGroup is how many tasks with a deadline are submitted before the
	// results are waited for.
	deadlineGroup = 1024
	queuedTasks   = 1_000_000
	futureTasks   = 100_000
	idleWorkers   = 10_000
)

func experiments() []experiment {
	fifty := func(int) uint64 { return factorial }
	number := func(i int) uint64 { return uint64(i) }
	all := []experiment{{ID: "one", Maker: "one"}}
	for _, n := range producers {
		all = append(all, experiment{ID: "many-" + strconv.Itoa(n), Maker: "many", Shape: shape{producers: n}})
	}
	all = append(all, experiment{ID: "trip", Maker: "trip"})
	for _, n := range sizes {
		all = append(all, experiment{ID: "group-" + strconv.Itoa(n), Maker: "group", Shape: shape{size: n, arg: fifty}})
	}
	return append(all,
		experiment{ID: "deadline", Maker: "deadline", Shape: shape{size: deadlineGroup, arg: number}},
		experiment{ID: "queued", Maker: "queued", Most: true, Shape: shape{size: queuedTasks}},
		experiment{ID: "futures", Maker: "futures", Most: true, Shape: shape{size: futureTasks}},
		experiment{ID: "idle", Maker: "idle", Most: true, Shape: shape{size: idleWorkers}})
}

// systems lists all contenders: ours, then the libraries, then what needs none.
func systems() []system {
	var all []system
	all = append(all, bullpens()...)
	all = append(all, libraries()...)
	return append(all, floors()...)
}

// cell is one system in one experiment under one GOMAXPROCS.
type cell struct {
	system     system
	experiment experiment
	procs      int
}

func (c cell) id() string { return c.system.ID + "/" + c.experiment.ID }

// plan lists the cells whose name matches.
func plan(only *regexp.Regexp, procs []int) []cell {
	var cells []cell
	most := 0
	for _, p := range procs {
		most = max(most, p)
	}
	for _, p := range procs {
		for _, e := range experiments() {
			for _, s := range systems() {
				c := cell{s, e, p}
				if s.makers[e.Maker] != nil && (!e.Most || p == most) && only.MatchString(c.id()) {
					cells = append(cells, c)
				}
			}
		}
	}
	return cells
}

// find gives the cell of that name.
func find(id string) (cell, error) {
	for _, c := range plan(regexp.MustCompile("^"+regexp.QuoteMeta(id)+"$"), []int{1}) {
		return c, nil
	}
	return cell{}, fmt.Errorf("no cell %q: see -list", strings.TrimSpace(id))
}
