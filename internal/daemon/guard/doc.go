// Package guard is the edge of the daemon's HTTP API: who may ask for what, and
// how much. It knows nothing of jobs.
package guard
