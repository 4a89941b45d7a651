package api

import (
	"bufio"
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/bullpen-run/bullpen/internal/daemon/problem"
	"github.com/bullpen-run/bullpen/job"
)

var errLongLine = errors.New("the line is too long")

// lineReader reads lines of bounded length.
type lineReader struct {
	from    *bufio.Reader
	longest int
}

func newLineReader(r io.Reader, longest int) *lineReader {
	return &lineReader{from: bufio.NewReaderSize(r, 32<<10), longest: longest}
}

// next returns the next line, without its end and surrounding space; the caller owns
// it. errLongLine means that a line was skipped.
func (l *lineReader) next() ([]byte, error) {
	var line []byte
	long := false
	for {
		part, err := l.from.ReadSlice('\n')
		if long = long || len(line)+len(part) > l.longest; long {
			line = nil
		} else {
			line = append(line, part...)
		}
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			continue
		case err != nil && (!errors.Is(err, io.EOF) || len(line) == 0 && !long):
			return nil, err
		case long:
			return nil, errLongLine
		}
		return bytes.TrimSpace(line), nil
	}
}

// readLine decodes a job from JSON, such as a line of a bulk. Only the known fields
// are allowed.
func readLine(text []byte, known []string, maxPayload int, now time.Time) (order, *problem.Problem) {
	var f faults
	o := readJob(text, known, now, &f)
	if p := f.problem(); p != nil {
		return o, p
	}
	if n := len(o.job.Payload); n > maxPayload {
		return o, problem.New(problem.TooLarge, fmt.Sprintf("the payload has %d bytes, more than the %d that queue.max_payload allows: put the data elsewhere and its name into the payload.", n, maxPayload))
	}
	return o, nil
}

func readJob(text []byte, known []string, now time.Time, f *faults) order {
	var o order
	payloads := 0
	err := eachMember(text, f, known, func(name string, value []byte) error {
		switch name {
		case "pool":
			return errors.Join(readString(value, &o.job.Queue), checkPool(o.job.Queue, true))
		case "then":
			return o.readThen(value, now)
		case "payload":
			payloads++
			var s string
			err := readString(value, &s)
			o.job.Payload = []byte(s)
			return err
		case "payload_base64":
			payloads++
			var s string
			err := readString(value, &s)
			if err == nil {
				if o.job.Payload, err = base64.StdEncoding.DecodeString(s); err != nil {
					err = errors.New("use standard base64 with padding")
				}
			}
			return err
		case "meta":
			return o.readMetaObject(value)
		}
		return o.readField(settingOf(name), value)
	})
	if err != nil {
		f.add("the line " + err.Error())
	}
	if payloads > 1 {
		f.add("payload and payload_base64 are both set: use one")
	}
	delay := o.job.Delay
	o.settle(now, f)
	if slices.Equal(known, linkFields) && delay > 0 { // the delay counts from when the job is enqueued
		o.job.Delay, o.job.At = delay, time.Time{}
	}
	return o
}

// readThen decodes the jobs that follow another.
func (o *order) readThen(value []byte, now time.Time) error {
	all, err := elements(value, longestChain-1)
	if errors.Is(err, errTooMany) {
		return fmt.Errorf("it has %d jobs or more: a chain has %d at most", longestChain, longestChain)
	}
	if err != nil {
		return err
	}
	for i, text := range all {
		var f faults
		l := readJob(text, linkFields, now, &f)
		if p := f.problem(); p != nil {
			return fmt.Errorf("job %d: %s", i, p.Detail)
		}
		o.job.Then = append(o.job.Then, l.job)
	}
	return nil
}

// complete fills in what a job and its followers leave to their pools. A job without
// a pool goes to that of the job before it.
func (a *API) complete(pool string, j job.Job) (job.Job, error) {
	if j.Queue == "" {
		j.Queue = pool
	}
	j, err := a.backend.Complete(j.Queue, j)
	pool = j.Queue
	for i := range j.Then {
		l := &j.Then[i]
		if l.Queue == "" {
			l.Queue = pool
		}
		if err == nil {
			*l, err = a.backend.Complete(l.Queue, *l)
		}
		pool = l.Queue
	}
	return j, err
}

// readField decodes one setting of a line: a string as in a query, or a number.
func (o *order) readField(s *setting, value []byte) error {
	text := string(value)
	isNumber := text[0] == '-' || text[0] >= '0' && text[0] <= '9'
	switch {
	case text[0] == '"':
		if err := json.Unmarshal(value, &text); err != nil {
			return err
		}
		if s.kind == number || s.kind == flag {
			return errors.New("use a value without quotes")
		}
	case isNumber && s.kind == span:
		v, err := strconv.ParseFloat(text, 64)
		if err != nil {
			return errDuration
		}
		d, err := seconds(v)
		if err != nil {
			return err
		}
		text = strings.TrimPrefix(d.String(), "-")
	case isNumber && (s.kind == size || s.kind == number):
		text = wholeNumber(text)
	case s.kind == flag:
	case s.kind == span:
		return errDuration
	case s.kind == size:
		return errSize
	case s.kind == number:
		return errors.New("use a number")
	default:
		return errors.New("use a string")
	}
	return s.set(o, text)
}

// readMetaObject decodes meta, an object of strings.
func (o *order) readMetaObject(value []byte) error {
	var bad error
	err := members(value, func(name string, value []byte) bool {
		var text string
		switch err := readString(value, &text); {
		case err != nil:
			bad = errors.New("its values must be strings")
		case name == "":
			bad = errors.New("it has an empty key")
		default:
			o.addMeta(name, text)
		}
		return bad == nil && len(o.job.Meta) <= mostMeta
	})
	if err != nil {
		return errors.New("use an object of strings")
	}
	return bad
}
