package api

import (
	"errors"

	"github.com/bullpen-run/bullpen/job"
)

// brief removes from a job what lists leave out.
func brief(i *job.Info) {
	if end, ok := errors.AsType[*job.EndError](i.Err); ok && end.Task != nil {
		short := *end
		short.Task, short.Message = nil, i.ErrorText()
		i.Err = &short
	}
	i.Payload, i.History, i.Lines = nil, nil, nil
}

// whole returns a job without its payload.
func whole(i *job.Info) *job.Info {
	w := *i
	w.Payload = nil
	return &w
}
