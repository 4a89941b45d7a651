// Package jobs puts jobs into a store, records what becomes of them, and reads them. It
// is the layer of the queue above package record, and runs no jobs. The layers above pass
// what they know about a job through [Jobs.Above].
//
// A job's life begins in enqueue.go: it is checked, given an id, and put as one message
// on the subject of its queue and priority, or of its time. From there package run takes
// it and records how it ended. wait.go notifies the callers that wait for it; get.go and
// list.go answer queries.
package jobs
