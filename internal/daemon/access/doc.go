// Package access protects the daemon's HTTP API: it decides who may call what, and how
// much. It knows nothing of jobs.
//
// A request passes these checks, in this order: a place among the connections, limits
// on headers and time (http.Server), Host and Origin, the token and its role, and the
// rate of its client. While it is processed, there are limits on its body and on how
// slowly its answer may be read.
package access
