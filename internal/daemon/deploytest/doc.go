// Package deploytest holds tests of the files in deploy and of docs/metrics.md: that
// configurations load, that what they name is there, and that the list of metrics
// is the one of the code.
package deploytest
