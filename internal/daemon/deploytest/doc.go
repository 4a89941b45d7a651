// Package deploytest tests the files in deploy and docs/metrics.md: configurations
// must load, what they refer to must exist, and the list of metrics must match the
// code.
package deploytest
