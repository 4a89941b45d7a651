// Package trace tells a collector of OpenTelemetry what becomes of jobs: who
// submitted them, how long they waited, which worker ran them and how that ended,
// as spans of one trace. It speaks OTLP over HTTP, in protobuf, and needs no SDK:
// every span is known whole when it is made, because it is made when it ends.
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
// An ephemeral task has wait and run below its request. A job that came without a
// traceparent has a trace of its own, whose id follows from its own, so that all
// nodes and all attempts agree on it and on whether it is sampled.
//
// Whether a trace is told of is decided where it begins, and kept by all that
// follow, in the flags of the traceparent.
//
// Nobody who runs a task ever waits for the collector: spans go into a bounded
// buffer, and what has no room is dropped and counted.
package trace
