package record

import (
	"slices"

	"github.com/bullpen-run/bullpen/job"
)

// Position is where a job is in a chain.
type Position struct {
	First  string // the id of the first job; empty if the job is in no chain
	Number int    // from 1
	Of     int    // the number of jobs of the chain
}

// Links returns the stored form of the jobs that follow the first: each with a queue,
// which defaults to that of the job before.
func Links(then []job.Job, queue string) []job.Job {
	then = slices.Clone(then)
	for i := range then {
		if then[i].Queue == "" {
			then[i].Queue = queue
		}
		if queue = then[i].Queue; queue == "" {
			then[i].Queue = "default"
		}
	}
	return then
}

// linkRoom is the size of a stored chain without what write adds for each of its jobs.
const linkRoom = 128

// LinksSize bounds the size of the jobs that follow in the record of the job before.
func LinksSize(then []job.Job) int {
	size := linkRoom
	for i := range then {
		size += linkRoom + len(then[i].Queue) + len(linkFields(&then[i]))
	}
	return size
}
