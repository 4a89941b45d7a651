package record

import (
	"slices"

	"github.com/bullpen-run/bullpen/job"
)

// Place is where a job is in a chain.
type Place struct {
	First  string // the id of the first job; empty: it is in no chain
	Number int    // from 1
	Of     int    // how many jobs the chain has
}

// Links gives the jobs that follow the first, as they are stored: each with a
// queue, that of the one before where it names none.
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

// linkRoom is what is stored of a chain beside what write adds of each of its jobs.
const linkRoom = 128

// LinksSize bounds what jobs that follow take in the record of the one before.
func LinksSize(then []job.Job) int {
	size := linkRoom
	for i := range then {
		size += linkRoom + len(then[i].Queue) + len(linkFields(&then[i]))
	}
	return size
}
