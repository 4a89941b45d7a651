// Package cron enqueues jobs at set times. It is a layer of the queue above package jobs.
//
// A schedule is one record, which put.go changes; its progress is another. Nodes in
// FireSchedules (fire.go) keep an agenda of the schedules in memory (entry.go, read.go)
// and handle each tick that is due (tick.go). The job of a tick has an id derived from
// the tick, so it is enqueued once, however many nodes try. The nodes report to each
// other what they have done (news.go).
package cron
