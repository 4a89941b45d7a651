// Package record is how the queue's things lie in its store: jobs, how they ended,
// their attempts, keys, batches, schedules, and the limits of groups. It is the lowest
// layer of the queue, and the only one that knows the form of what is stored.
//
// Each record begins with a version and a checksum. A field of an unknown tag is
// skipped, so that a later version may add some; a record of a later version is
// refused with job.ErrNewer, and never overwritten.
package record
