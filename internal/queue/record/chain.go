package record

import (
	"fmt"

	"github.com/bullpen-run/bullpen/job"
)

// The tags of a job's position in its chain, and of each job that follows.
const (
	chainFirst = iota + 1
	chainNumber
	chainOf
	chainLink
	chainNext
)

const (
	linkQueue = iota + 1
	linkPriority
	linkDelay
	linkJob
	linkChain // of a batch's callback: the rest of its chain
)

func (p *Position) write(w *recordWriter) {
	w.text(chainFirst, p.First)
	w.number(chainNumber, uint64(p.Number))
	w.number(chainOf, uint64(p.Of))
}

func (p *Position) read(f field) error {
	switch f.tag {
	case chainFirst:
		p.First = string(f.v)
	case chainNumber:
		return f.into(&p.Number)
	case chainOf:
		return f.into(&p.Of)
	}
	return nil
}

// chainFields returns the chain of a job as its record stores it.
func chainFields(p Position, then []job.Job) []byte {
	if p == (Position{}) && len(then) == 0 {
		return nil
	}
	var w recordWriter
	p.write(&w)
	for i := range then {
		w.bytes(chainLink, linkFields(&then[i]))
	}
	return w.b
}

func (s *Job) readChain(f field) error {
	return readFields(f.v, func(f field) error {
		if f.tag != chainLink {
			return s.Chain.read(f)
		}
		if len(s.Job.Then) >= job.LongestChain {
			return fmt.Errorf("%w: its chain has too many jobs", job.ErrDamaged)
		}
		j, err := readLink(f.v)
		s.Job.Then = append(s.Job.Then, j)
		return err
	})
}

// linkFields returns a job that is stored within another record, including what its
// subject would say.
func linkFields(j *job.Job) []byte {
	var w, in recordWriter
	w.text(linkQueue, j.Queue)
	w.number(linkPriority, uint64(j.Priority))
	w.span(linkDelay, j.Delay)
	writeJob(&in, j)
	w.bytes(linkJob, in.b)
	return w.b
}

func readLink(b []byte) (job.Job, error) {
	var s Job
	err := readFields(b, func(f field) error {
		switch f.tag {
		case linkQueue:
			s.Job.Queue = string(f.v)
		case linkPriority:
			v, err := f.number()
			if err == nil && v >= job.Priorities {
				err = fmt.Errorf("%w: it names a priority %d", job.ErrDamaged, v)
			}
			s.Job.Priority = job.Priority(v)
			return err
		case linkDelay:
			return f.into(&s.Job.Delay)
		case linkJob:
			return readFields(f.v, func(f field) error {
				if f.tag == tagChain {
					return nil // a chain within a chain is ignored, however deep
				}
				return s.read(f)
			})
		}
		return nil
	})
	return s.Job, err
}

// nextFields returns the chain of an ended job as its record stores it.
func nextFields(p Position, next string) []byte {
	if p == (Position{}) && next == "" {
		return nil
	}
	var w recordWriter
	p.write(&w)
	w.text(chainNext, next)
	return w.b
}

func (e *End) readNext(f field) error {
	return readFields(f.v, func(f field) error {
		if f.tag == chainNext {
			e.Next = string(f.v)
			return nil
		}
		return e.Chain.read(f)
	})
}
