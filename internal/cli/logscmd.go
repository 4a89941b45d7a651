package cli

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/bullpen-run/bullpen/client"
	"github.com/bullpen-run/bullpen/job"
)

// quiet is how long a job may be silent before bullpen logs considers the stored
// events complete.
const quiet = 400 * time.Millisecond

// logging has the flags of bullpen logs.
type logging struct {
	*remote
	follow, times, bare bool
	after               string
}

func newLogs(r *remote) *cobra.Command {
	l := &logging{remote: r}
	return r.command(verb{
		use: "logs ID", short: "Show what a job prints and logs",
		long: "Logs prints the lines that a job has printed and logged, as far as they are kept. With\n" +
			"--follow it prints new lines until the job has ended, and reconnects if the connection\n" +
			"breaks; the exit status is then 0 if the job ended well, 1 if not. Changes of its state\n" +
			"and its progress go to standard error. With --json each event is an object on a line.",
		example:  "  bullpen logs -f 01K9GZ3Q7V8X5T2M4N6P8R0S1A",
		args:     wants(1, 1, "bullpen logs ID; see: bullpen ls"),
		complete: r.completeJob(),
		flags: func(f flagSet) {
			f.BoolVarP(&l.follow, "follow", "f", false, "follow the job until it has ended")
			f.BoolVar(&l.times, "times", false, "begin each line with its time")
			f.BoolVarP(&l.bare, "quiet", "q", false, "only the lines, without changes of state and progress")
			add(f, &l.after, "after", "", "EVENT", "", word, "start after the event with this id, as printed by --json")
		},
		do: func(ctx context.Context, _ *client.Client, args []string) error { return l.show(ctx, args[0]) },
	})
}

// show prints the events of a job.
func (l *logging) show(ctx context.Context, id string) error {
	c, err := l.patient()
	if err != nil {
		return err
	}
	defer c.Close()
	reading, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	rest := &restless{stop: stop}
	if !l.follow {
		// Fail early if the job does not exist.
		info, err := c.Get(ctx, id)
		if err != nil {
			return ofJob(id, err)
		}
		if !info.State.Ended() {
			rest.begin()
			defer rest.end()
		}
	}
	lines := false // some were printed
	for e, err := range c.Follow(reading, id, l.after) {
		switch {
		case ctx.Err() != nil:
			l.say("interrupted; the job continues")
			return status(exitInterrupted)
		case err != nil && errors.Is(context.Cause(reading), errQuiet):
			return nil
		case err != nil:
			return ofJob(id, err)
		}
		rest.more()
		lines = lines || e.Kind == client.Logged
		if err := l.event(&e); err != nil {
			return err
		}
		if e.Kind != client.Ended {
			continue
		}
		if !lines && !l.bare && !l.asJSON {
			l.say("no output of the job is kept")
		}
		if l.follow {
			return l.ended(e.Job)
		}
	}
	return nil
}

// event prints one event immediately.
func (l *logging) event(e *client.Event) error {
	switch {
	case l.asJSON:
		if err := l.object(eventObject(e)); err != nil {
			return err
		}
	case e.Kind == client.Logged:
		text := plain(e.Line.Text)
		if l.times || e.Line.Stream == "log" {
			line := e.Line
			if !l.times {
				line.Time = time.Time{}
			}
			text = lineText(&line)
		}
		l.printf("%s\n", text)
	case !l.bare:
		l.story(e)
	}
	return l.flush()
}

// story prints an event that is not a line.
func (l *logging) story(e *client.Event) {
	switch e.Kind {
	case client.StateChanged:
		text := e.State.String()
		if e.Attempt > 1 {
			text += fmt.Sprintf(" (attempt %d)", e.Attempt)
		}
		l.say("%s", text)
	case client.Progressed:
		l.say("%.0f%% %s", 100*e.Fraction, e.Note)
	case client.Missed:
		l.say("lines are missing here: %s", e.Text)
	case client.Ended, client.Logged:
	}
}

// ended prints how a job ended, and returns the exit status.
func (l *logging) ended(job *job.Info) error {
	if job == nil {
		return nil
	}
	err := job.Err
	if err == nil || l.asJSON || l.bare {
		if err != nil {
			return status(exitFailed)
		}
		return nil
	}
	return err
}

// eventObject returns the JSON form of an event.
func eventObject(e *client.Event) any {
	type line struct {
		Time   time.Time `json:"time,omitzero"`
		Level  int       `json:"level"`
		Stream string    `json:"stream,omitempty"`
		Text   string    `json:"text"`
	}
	object := struct {
		ID       string    `json:"id,omitempty"`
		Event    string    `json:"event"`
		State    string    `json:"state,omitempty"`
		Attempt  int       `json:"attempt,omitempty"`
		Fraction *float64  `json:"fraction,omitempty"`
		Note     string    `json:"note,omitempty"`
		Line     *line     `json:"line,omitempty"`
		Job      *job.Info `json:"job,omitempty"`
		Text     string    `json:"text,omitempty"`
	}{ID: e.ID, Event: string(e.Kind), Attempt: e.Attempt, Note: e.Note, Text: e.Text}
	switch {
	case e.Kind == client.StateChanged:
		object.State = e.State.String()
	case e.Kind == client.Progressed:
		object.Fraction = &e.Fraction
	case e.Kind == client.Logged:
		object.Line = &line{e.Line.Time.UTC(), e.Line.Level, e.Line.Stream, e.Line.Text}
	case e.Job != nil:
		object.Job = e.Job
	}
	return object
}

var errQuiet = errors.New("no more events came")

// restless ends the reading of events after a short silence.
type restless struct {
	stop  context.CancelCauseFunc
	timer *time.Timer // nil while silence does not matter
}

func (r *restless) begin() {
	// The first answer may take longer than those after it.
	r.timer = time.AfterFunc(5*quiet, func() { r.stop(errQuiet) })
}

func (r *restless) more() {
	if r.timer != nil {
		r.timer.Reset(quiet)
	}
}

func (r *restless) end() { r.timer.Stop() }
