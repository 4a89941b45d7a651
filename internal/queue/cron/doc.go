// Package cron enqueues jobs at set times: a layer of the queue above package jobs.
//
// A schedule is one record, which put.go changes, and how far it is another. Nodes in
// FireSchedules (fire.go) keep an agenda of the schedules in memory (entry.go, read.go),
// and deal with each tick that is due (tick.go): the job of a tick has an id that
// follows from the tick, so that it is enqueued once, however many nodes try. They tell
// each other what they have done (news.go).
package cron
