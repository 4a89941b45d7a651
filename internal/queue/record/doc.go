// Package record defines the stored form of everything the queue keeps: jobs, their
// outcomes and attempts, keys, batches, schedules, and the limits of groups. It is the
// lowest layer of the queue, and the only one that knows this form.
//
// Each record begins with a version and a checksum. Fields with an unknown tag are
// skipped, so that a later version can add some. A record of a later version is refused
// with job.ErrNewer and never overwritten.
package record
