package api

import (
	"errors"

	"github.com/bullpen-run/bullpen/job"
)

// Page is a page of a list of jobs.
type Page struct {
	Jobs []*job.Info `json:"jobs"`
	// Next is the "after" of the next page; left out on the last page.
	Next string `json:"next,omitempty"`
}

// brief returns a job as a list has it.
func brief(i *job.Info) *job.Info {
	b := *whole(i)
	b.History, b.Lines = nil, nil
	if end, ok := errors.AsType[*job.EndError](i.Err); ok && end.Task != nil {
		short := *end
		short.Task, short.Message = nil, i.ErrorText()
		b.Err = &short
	}
	return &b
}

// whole returns a job without its payload.
func whole(i *job.Info) *job.Info {
	w := *i
	w.Payload = nil
	return &w
}
