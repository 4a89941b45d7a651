// Package group makes the jobs that have a group wait for their turns. It is the layer of
// the queue between packages jobs and run.
//
// A call of Work enters the [Backlog] of its queue (groups.go, backlog.go). The backlog
// takes jobs with a group from the store before there is a place for them (take.go),
// keeps them in lanes, one per group and priority (group.go), renews their leases while
// they wait (upkeep.go), and ends those that pass their deadline (late.go). ring.go
// decides whose turn it is; the limits of a group decide whether it may have it
// (limits.go). On a store that several nodes share, each node holds slots and tokens of a
// group, which it takes from a record that all of them change (claims.go, slots.go).
package group
