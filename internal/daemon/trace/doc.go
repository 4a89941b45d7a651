// Package trace exports traces of jobs to an OpenTelemetry collector: who submitted
// them, how long they waited, which worker ran them and how that ended, as spans of
// one trace. It speaks OTLP over HTTP, in protobuf. It needs no SDK, because every
// span is created, complete, when it ends.
//
// The spans of a job:
//
//	POST /v1/pools/{pool}/jobs   server    the request; its parent is the caller's span
//	  job TASK                   internal  from the enqueuing until its outcome is durable
//	    wait                     consumer  until an attempt began
//	      start worker           internal  of it, the start of the worker that ran the attempt
//	    run TASK                 consumer  an attempt; the spans of the handler hang below it
//	    outcome                  internal  the recording, until the outcome was durable
//
// An ephemeral task has wait and run below its request. A job without a traceparent
// has its own trace, whose id is derived from the job's id, so that all nodes and all
// attempts agree on it and on whether it is sampled.
//
// The sampling decision is made where the trace begins. All later spans follow it,
// through the flags of the traceparent.
//
// Running a task never waits for the collector: spans go into a bounded buffer, and
// are dropped and counted when it is full.
package trace
