package queue

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	bullpen "github.com/bullpen-run/bullpen"
	"github.com/bullpen-run/bullpen/job"
)

// strict is a team that knows one task and keeps no limit of memory.
type strict struct{ *team }

func (strict) Check(t bullpen.Task) error {
	switch {
	case t.Name != "known":
		return fmt.Errorf("%w %q", bullpen.ErrUnknownTask, t.Name)
	case t.Limits.Memory > 0:
		return fmt.Errorf("%w: it has a limit of memory", bullpen.ErrRefused)
	}
	return nil
}

// waitWorkers waits until n executors work on the queue "a".
func waitWorkers(t *testing.T, q *Queue, n int) {
	t.Helper()
	for len(q.jobs.Above.Executors("a")) < n {
		select {
		case <-time.After(time.Millisecond):
		case <-t.Context().Done():
			t.Fatal(t.Context().Err())
		}
	}
}

// TestRefusedAtTheDoor wants each way to hand in a job to refuse one that the
// executors of its queue cannot run.
func TestRefusedAtTheDoor(t *testing.T) {
	t.Parallel()
	q := openOn(t, Config{})
	workOn(t, q, strict{newTeam(1, echoes)}, WorkConfig{Queue: "a"})
	waitWorkers(t, q, 1)
	good := job.Job{Queue: "a", Name: "known"}
	memory := job.Job{Queue: "a", Name: "known", Limits: bullpen.Limits{Memory: 1}}
	unknown := job.Job{Queue: "a", Name: "unknown"}
	ctx := t.Context()
	doors := map[string]func(j job.Job) error{
		"Check":   q.Check,
		"Enqueue": func(j job.Job) error { _, err := q.Enqueue(ctx, j); return err },
		"Run":     func(j job.Job) error { _, _, err := q.Run(ctx, j); return err },
		"All":     func(j job.Job) error { _, err := q.EnqueueAll(ctx, []job.Job{good, j}); return err },
		"Then": func(j job.Job) error {
			first := good
			j.Queue = "" // that of the first
			first.Then = []job.Job{j}
			_, err := q.Enqueue(ctx, first)
			return err
		},
		"batch":    func(j job.Job) error { _, err := q.EnqueueBatch(ctx, job.Batch{}, []job.Job{j}); return err },
		"callback": func(j job.Job) error { _, err := q.OpenBatch(ctx, job.Batch{Then: &j}); return err },
		"schedule": func(j job.Job) error {
			_, err := q.PutSchedule(ctx, job.Schedule{Name: "s", Every: time.Hour, Job: j})
			return err
		},
	}
	for name, door := range doors {
		if err := door(memory); !errors.Is(err, bullpen.ErrRefused) {
			t.Errorf("%s of a job with a limit that is not kept: %v, want ErrRefused", name, err)
		}
		if err := door(unknown); !errors.Is(err, bullpen.ErrUnknownTask) {
			t.Errorf("%s of an unknown task: %v, want ErrUnknownTask", name, err)
		}
		if err := door(good); err != nil {
			t.Errorf("%s of a job that can run: %v", name, err)
		}
	}
	if _, err := q.Enqueue(ctx, job.Job{Queue: "elsewhere", Name: "unknown"}); err != nil {
		t.Errorf("a job of a queue that is worked off elsewhere: %v", err)
	}
	// One executor that can run it is enough, and one that does not say may.
	workOn(t, q, newTeam(1, echoes), WorkConfig{Queue: "a"})
	waitWorkers(t, q, 2)
	if err := q.Check(unknown); err != nil {
		t.Errorf("a job that another executor may run: %v", err)
	}
}

func TestRefuse(t *testing.T) {
	t.Parallel()
	reason := errors.New("no")
	q := openOn(t, Config{Refuse: func(queue string, k bullpen.Task) error {
		if queue == "b" && k.Name == "second" {
			return reason
		}
		return nil
	}})
	j := job.Job{Queue: "a", Name: "first", Then: []job.Job{{Queue: "b", Name: "third"}, {Name: "second"}}}
	if _, err := q.Enqueue(context.Background(), j); !errors.Is(err, reason) {
		t.Errorf("Enqueue of a chain with a job that is refused: %v", err)
	}
	if info, err := q.List(t.Context(), job.Filter{}); err != nil || len(info.Jobs) > 0 {
		t.Errorf("after a refusal there are %d jobs, %v", len(info.Jobs), err)
	}
}
