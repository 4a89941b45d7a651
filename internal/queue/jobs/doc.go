// Package jobs puts jobs into a store, keeps what becomes of them, and reads it: the
// layer of the queue above package record. It runs none of them. What the layers above
// know of a job they tell it by [Jobs.Above].
//
// A job's life begins here, in enqueue.go: it is checked, given an id, and put as one
// message on the subject of its queue and priority, or of its time. Package run takes
// it from there and records how it ended; wait.go tells those who wait, get.go and
// list.go those who ask.
package jobs
