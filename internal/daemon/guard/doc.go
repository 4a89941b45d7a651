// Package guard is the edge of the daemon's HTTP API: who may ask for what, and
// how much. It knows nothing of jobs.
//
// A request passes these checks, in this order: a place among the connections,
// bounds on headers and time (http.Server), Host and Origin, the token and its
// role, the rate of its client, and then, while it is worked off, the bounds on
// its body and on how slowly its answer may be read.
package guard
