// Package run takes jobs from the store and has executors run them: the layer of the
// queue above packages jobs and group.
//
// The life of a job goes on here in this order. A call of Work (work.go, runner.go)
// asks the store for as many jobs as its executor can start (ask.go), the priorities by
// weight. Jobs with a group wait in package group until their group has its turn, and
// have their turns among the others (turns.go). A job that came is an attempt
// (attempt.go): what is known of it is looked up where it may have run before
// (lookup.go), the executor gets it, its lease is renewed (renew.go). When it has ended
// decide.go says what follows, and outcome.go stores that: the outcome, another
// attempt, or that it was given back. cancel.go takes a job back at any of these
// stages.
package run
