// Package live knows the tasks that run on this node: what they say of
// themselves, as it happens, for those who watch; and which pool a task runs in,
// for those that submit work from within it.
package live
