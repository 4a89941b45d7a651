// Package live tracks the tasks that run on this node: it passes their progress and
// output to followers as they happen, and it knows which pool each task runs in, for
// tasks that submit other work.
package live
