// Package batch counts the jobs of a batch and enqueues its callbacks. It is the layer of
// the queue above package run, which reports to it the jobs that end.
//
// A batch is one record, which batch.go and add.go change until it is sealed. While it is
// open or runs, each node counts the members whose ends it has recorded (roster.go) and
// stores the counts a little later (store.go); survey.go finds from the outcomes what was
// not stored. When all members have ended, steps.go records that and enqueues the
// callbacks.
package batch
