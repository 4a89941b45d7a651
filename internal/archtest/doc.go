// Package archtest holds tests of the house itself: who may import whom, the
// sizes of files and functions, package docs, names, what comments begin with, the
// waiting that must not be done by sleeping, and the look for leaks at the end of the
// tests. It reads the source of the whole checkout, for every system at once, and has
// nothing to import.
//
// Someone who adds a package adds a row to the table in rules_test.go, and
// someone with a good reason to break a rule adds it, with the reason, to the
// exceptions there. An exception that is no longer needed fails too.
package archtest
