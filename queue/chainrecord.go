package queue

import "fmt"

// The tags of what a job's record says of its chain, and of each job that follows.
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
	linkChain // of a callback of a batch: what follows it
)

func (p *place) write(w *recordWriter) {
	w.text(chainFirst, p.first)
	w.number(chainNumber, uint64(p.number))
	w.number(chainOf, uint64(p.of))
}

func (p *place) read(f field) error {
	switch f.tag {
	case chainFirst:
		p.first = string(f.v)
	case chainNumber:
		return f.into(&p.number)
	case chainOf:
		return f.into(&p.of)
	}
	return nil
}

// chainFields gives what the record of a job says of its chain.
func chainFields(p place, then []Job) []byte {
	if p == (place{}) && len(then) == 0 {
		return nil
	}
	var w recordWriter
	p.write(&w)
	for i := range then {
		w.bytes(chainLink, linkFields(&then[i]))
	}
	return w.b
}

func (s *stored) readChain(f field) error {
	return readFields(f.v, func(f field) error {
		if f.tag != chainLink {
			return s.chain.read(f)
		}
		if len(s.job.Then) >= longestChain {
			return fmt.Errorf("%w: its chain has too many jobs", errCorrupt)
		}
		j, err := readLink(f.v)
		s.job.Then = append(s.job.Then, j)
		return err
	})
}

// linkFields gives a job that is stored within another record, with what else its
// subject says.
func linkFields(j *Job) []byte {
	var w, in recordWriter
	w.text(linkQueue, j.Queue)
	w.number(linkPriority, uint64(j.Priority))
	w.span(linkDelay, j.Delay)
	j.write(&in)
	w.bytes(linkJob, in.b)
	return w.b
}

func readLink(b []byte) (Job, error) {
	var s stored
	err := readFields(b, func(f field) error {
		switch f.tag {
		case linkQueue:
			s.job.Queue = string(f.v)
		case linkPriority:
			v, err := f.number()
			if err == nil && v >= priorities {
				err = fmt.Errorf("%w: it names a priority %d", errCorrupt, v)
			}
			s.job.Priority = Priority(v)
			return err
		case linkDelay:
			return f.into(&s.job.Delay)
		case linkJob:
			return readFields(f.v, func(f field) error {
				if f.tag == tagChain {
					return nil // no chain within a chain, however deep
				}
				return s.read(f)
			})
		}
		return nil
	})
	return s.job, err
}

// nextFields gives what the record of an ending says of its chain.
func nextFields(p place, next string) []byte {
	if p == (place{}) && next == "" {
		return nil
	}
	var w recordWriter
	p.write(&w)
	w.text(chainNext, next)
	return w.b
}

func (e *ending) readNext(f field) error {
	return readFields(f.v, func(f field) error {
		if f.tag == chainNext {
			e.next = string(f.v)
			return nil
		}
		return e.chain.read(f)
	})
}
