// Package run takes jobs from the store and has executors run them. It is the layer of
// the queue above packages jobs and group.
//
// A job passes through the files in this order. A call of Work (work.go, runner.go) asks
// the store for as many jobs as its executor can start (ask.go), sharing the places among
// the priorities by weight. Jobs with a group wait in package group for their group's
// turn, and then take turns with the others (turns.go). A delivered job becomes an
// attempt (attempt.go). If it may have run before, what is stored about it is looked up
// (lookup.go). Then the executor gets it, and its lease is renewed (renew.go). When the
// attempt has ended, decide.go decides what follows, and outcome.go stores that: an
// outcome, a retry, or the job given back. cancel.go cancels a job at any of these
// stages.
package run
