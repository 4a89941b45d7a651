package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/bullpen-run/bullpen"
	records "github.com/bullpen-run/bullpen/internal/queue/record"
	"github.com/bullpen-run/bullpen/process"
)

// loaders is how many files are read concurrently, so that a slow file system holds
// up few others.
const loaders = 4

// feeder reads the input and submits its tasks to the pool.
type feeder struct {
	run      *run
	index    int64 // of the last item
	position int64
	files    chan *item // input of the loaders
	loading  sync.WaitGroup
}

// feed runs until the input or the run ends. A read that waits for input cannot be
// interrupted, so no goroutine waits for feed after the run was stopped: it ends with
// the process at the latest.
func (f *feeder) feed(s source) {
	o := f.run.options
	if o.files {
		f.files = make(chan *item)
		for range loaders {
			f.loading.Go(f.load) // ends when files is closed, below
		}
		defer f.loading.Wait()
		defer close(f.files)
	}
	for {
		records, err := s.next()
		for len(records) > 0 {
			want := len(records)
			if f.files != nil {
				want = 1 // the size is not known yet
			}
			n := f.run.flow.admit(want)
			if n == 0 {
				return
			}
			f.hand(records[:n])
			records = records[n:]
		}
		if err != nil {
			if !errors.Is(err, io.EOF) {
				f.run.fail(exitFailed, err)
			}
			f.run.flow.finish()
			return
		}
	}
}

// hand turns admitted lines into items and sends them on.
func (f *feeder) hand(records []record) {
	items := make([]item, len(records))
	var held int64
	for i := range records {
		held += int64(len(records[i].text))
	}
	f.run.flow.hold(held)
	for i, r := range records {
		it := &items[i]
		f.index++
		it.index, it.position = f.index, f.position
		f.position++
		it.line, it.payload, it.bytes = r.text, r.text, int64(len(r.text))
		f.columns(it, r)
		if err := f.check(it, r); err != nil {
			f.run.end(it, bullpen.Result{}, err)
			continue
		}
		if f.files != nil {
			it.name = r.text
			f.files <- it
			continue
		}
		f.run.start(it)
	}
}

// columns sets the values of an item that has several.
func (f *feeder) columns(it *item, r record) {
	it.values = r.values
	if r.values != nil {
		it.line = []byte(strings.Join(r.values, " "))
	}
	if sep := f.run.options.colsep; sep != nil {
		it.values = sep.Cut(r.columns())
	}
}

// check returns why a line cannot be a task.
func (f *feeder) check(it *item, r record) error {
	o := f.run.options
	switch {
	case r.size > 0:
		return refused("the line has %d bytes, more than %d: raise --max-line, or pass files with --files", r.size, o.maxLine)
	case o.files && len(r.text) == 0:
		return refused("the line is empty: it must name a file")
	case o.json && !json.Valid(r.text):
		var v any
		return refused("the line is not JSON: %v", json.Unmarshal(it.line, &v))
	}
	return nil
}

// load reads the files of items and submits the items.
func (f *feeder) load() {
	o := f.run.options
	for it := range f.files {
		if !o.byName() {
			content, err := readFile(string(it.name), o.maxLine)
			if err != nil {
				f.run.end(it, bullpen.Result{}, err)
				continue
			}
			it.payload = content
			f.run.flow.hold(int64(len(content)))
			it.bytes += int64(len(content))
		}
		f.run.start(it)
	}
}

// readFile reads a file of at most limit bytes.
func readFile(name string, limit int64) ([]byte, error) {
	tooLong := func(size int64) error {
		return refused("the file has at least %d bytes, more than %d: raise --max-line, or let the worker open it", size, limit)
	}
	file, err := os.Open(name)
	if err != nil {
		return nil, refused("%v", err)
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return nil, refused("%v", err)
	}
	if info.Size() > limit {
		return nil, tooLong(info.Size())
	}
	// The extra byte shows whether the file has grown.
	content := make([]byte, 0, info.Size()+1)
	for {
		n, err := file.Read(content[len(content):cap(content)])
		content = content[:len(content)+n]
		switch {
		case errors.Is(err, io.EOF):
			return content, nil
		case err != nil:
			return nil, refused("%v", err)
		case int64(len(content)) > limit:
			return nil, tooLong(int64(len(content)))
		case len(content) == cap(content):
			content = append(content, 0)[:len(content)]
		}
	}
}

// start starts the first attempt of an item, unless an earlier run has completed it.
func (r *run) start(it *item) {
	if r.options.dryRun {
		r.end(it, bullpen.Result{Payload: r.options.rehearsal(it)}, nil)
		return
	}
	if r.log != nil {
		it.hash = digestOf(it.payload)
		if hash, done := r.log.known.done(it.index); done {
			if hash != it.hash {
				r.fail(exitUsage, fmt.Errorf("--joblog %s was written for other input: task %d (%q) is not the task that the log records "+
					"as ok; resume with the same input, or start a new log", r.options.joblog, it.index, it.excerpt()))
				r.end(it, bullpen.Result{}, bullpen.ErrClosed)
				return
			}
			it.skip = true
			r.end(it, bullpen.Result{}, nil)
			return
		}
	}
	r.submit(it)
}

// submit submits an item to the pool. It does not block: the pool's queue has room
// for all items that the flow admits.
func (r *run) submit(it *item) {
	it.attempts++
	if r.timed {
		it.handed = time.Now()
	}
	t := bullpen.Task{Name: r.options.task, Payload: it.payload}
	if r.options.protocol != process.Lines {
		t.ID = strconv.FormatInt(it.index, 10)
	}
	if r.options.protocol == process.Exec {
		it.stderr, it.spill = nil, r.spill
		t.Observer = it
	}
	if it.attempts > 1 && r.options.batch.Max > 0 {
		t.Meta = map[string]string{records.MetaAttempt: strconv.Itoa(it.attempts)}
		if o, _ := bullpen.OutcomeOf(it.err); o == bullpen.Crashed || o == bullpen.Memory {
			t.Meta[process.MetaRedelivered] = "true" // alone, as another task of its call may be the cause
		}
	}
	err := r.pool.Submit(context.Background(), t, func(res bullpen.Result, err error) { r.end(it, res, err) })
	if err != nil {
		it.attempts--
		r.end(it, bullpen.Result{}, err)
	}
}

// end receives the outcome of an item's attempt. It does not block.
func (r *run) end(it *item, res bullpen.Result, err error) {
	if err != nil && it.err != nil && it.attempts > 0 {
		if _, started := bullpen.OutcomeOf(err); !started {
			err, it.final = it.err, true // another attempt was not possible
		}
	}
	it.result, it.err = res, err
	if r.timed {
		it.ended = time.Now()
	}
	if err == nil && !it.skip {
		if r.options.json {
			r.checkJSON(it)
		}
	}
	it.logged = r.options.logs(it)
	if it.err == nil && !it.logged {
		it.payload, it.values = nil, nil
		if !r.options.tag {
			it.line = nil
		}
	}
	r.flow.end(it)
}

// checkJSON turns a result that is not JSON into a failure.
func (r *run) checkJSON(it *item) {
	if json.Valid(it.result.Payload) {
		if bytes.IndexByte(it.result.Payload, '\n') >= 0 {
			var line bytes.Buffer
			if json.Compact(&line, it.result.Payload) == nil { // the result is valid
				it.result.Payload = line.Bytes()
			}
		}
		return
	}
	var v any
	it.err = &bullpen.TaskError{
		Outcome: bullpen.Failed, Worker: it.result.Stats.Worker, ExitCode: -1,
		Message: fmt.Sprintf("the result is not JSON: %v: %.60q", json.Unmarshal(it.result.Payload, &v), it.result.Payload),
	}
	it.result.Payload = nil
}
