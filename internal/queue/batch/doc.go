// Package batch counts jobs that are one batch, and enqueues its callbacks: a layer of
// the queue above package run, which tells it of the jobs that end.
//
// A batch is one record, which batch.go and add.go change until it is sealed. While it
// is open or runs, each node counts the members whose ends it has recorded (roster.go)
// and stores that a little later (store.go); survey.go finds out from the outcomes what
// was not stored. When all have ended, steps.go records that and enqueues what follows.
package batch
