package embedded_test

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	bullpen "github.com/bullpen-run/bullpen"
	"github.com/bullpen-run/bullpen/internal/engine"
	"github.com/bullpen-run/bullpen/internal/engine/pebble"
	"github.com/bullpen-run/bullpen/internal/leak"
	"github.com/bullpen-run/bullpen/internal/queue/record"
	"github.com/bullpen-run/bullpen/job"
	"github.com/bullpen-run/bullpen/pool"
	"github.com/bullpen-run/bullpen/queue"
	"github.com/bullpen-run/bullpen/queue/embedded"
)

// oldStores is where folders lie that earlier commits have written. None of them is
// written again: for a new format BULLPEN_WRITE_STORE=testdata/format-N has
// TestWriteOldStore write one more, with the commit before the change.
const oldStores = "testdata"

// roles names the jobs of an old store.
type roles struct {
	Waiting, Keyed, Later, Chain, Done, Dead, Canceled string
	Batch                                              string
	Members                                            []string
}

// keepAll keeps what is older than this test.
func keepAll(dir string) queue.Config {
	const ages = 100 * 365 * 24 * time.Hour
	return queue.Config{Store: embedded.At(dir), Lease: time.Second, Keep: job.Keep{OutcomeAge: ages, DeadAge: ages}}
}

// writers run the jobs of old stores, and of this one.
func writers(t *testing.T) bullpen.Executor {
	t.Helper()
	e, err := pool.New(pool.Config{Handlers: map[string]bullpen.Handler{
		"upper": func(_ context.Context, task bullpen.Task) ([]byte, error) { return append(task.Payload, '!'), nil },
		"fails": func(context.Context, bullpen.Task) ([]byte, error) { return nil, errors.New("it fails") },
	}})
	closing(t, e, err)
	return e
}

// TestWriteOldStore writes a folder with jobs of all kinds, closed, and as a killed
// process leaves it.
func TestWriteOldStore(t *testing.T) {
	to := os.Getenv("BULLPEN_WRITE_STORE")
	if to == "" {
		t.Skip("BULLPEN_WRITE_STORE names no folder: this writes what TestOldStores reads, once for each format")
	}
	dir, ctx := filepath.Join(to, "closed"), t.Context()
	q, err := queue.Open(ctx, keepAll(dir))
	if err != nil {
		t.Fatal(err)
	}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	put := func(j job.Job) string {
		t.Helper()
		ref, err := q.Enqueue(ctx, j)
		must(err)
		return ref.ID
	}
	work := writers(t)
	stop := startWork(t, q, work, queue.WorkConfig{Queue: "ends"})
	r := roles{
		Done: put(job.Job{Queue: "ends", Name: "upper", Payload: []byte("done")}),
		Dead: put(job.Job{Queue: "ends", Name: "fails", Payload: []byte("dead"), Retry: job.Retry{Attempts: 1}}),
	}
	for _, id := range []string{r.Done, r.Dead} {
		if _, err := q.Wait(ctx, id); err != nil && id == r.Done {
			t.Fatal(err)
		}
	}
	stop()
	r.Waiting = put(job.Job{Queue: "waits", Name: "upper", Payload: []byte("waiting"), Meta: map[string]string{"a": "b"}, Priority: job.High, Group: "tenant"})
	r.Keyed = put(job.Job{Queue: "waits", Name: "upper", Key: "the-key", Payload: []byte("keyed")})
	r.Later = put(job.Job{Queue: "waits", Name: "upper", Payload: []byte("later"), At: time.Date(2200, 1, 1, 0, 0, 0, 0, time.UTC)})
	r.Canceled = put(job.Job{Queue: "waits", Name: "upper"})
	must(q.Cancel(ctx, r.Canceled))
	chain, err := q.EnqueueChain(ctx, job.Job{Queue: "waits", Name: "upper", Payload: []byte("chain")}, job.Job{Queue: "waits", Name: "upper"})
	must(err)
	r.Chain = chain.ID
	batch, err := q.EnqueueBatch(ctx, job.Batch{Key: "the-batch"}, []job.Job{{Queue: "waits", Name: "upper", Payload: []byte("1")}, {Queue: "waits", Name: "upper", Payload: []byte("2")}})
	must(err)
	r.Batch = batch.ID
	members, _, err := q.BatchJobs(ctx, batch.ID, 0, 10)
	must(err)
	for _, m := range members {
		r.Members = append(r.Members, m.ID)
	}
	_, err = q.PutSchedule(ctx, job.Schedule{Name: "nightly", Cron: "0 3 * * *", Zone: "UTC", Job: job.Job{Queue: "waits", Name: "upper"}, Paused: true})
	must(err)
	must(q.SetGroupLimits(ctx, "waits", "tenant", job.GroupLimits{Concurrency: 3}))
	must(q.Pause(ctx, "paused"))
	text, err := json.MarshalIndent(r, "", "\t")
	must(err)
	must(os.CopyFS(filepath.Join(to, "killed"), os.DirFS(dir)))
	must(q.Close())
	must(os.WriteFile(filepath.Join(to, "roles.json"), append(text, '\n'), 0o600))
}

// A folder that an earlier commit has written, closed in order or killed, is read: all
// that it holds is there, and runs.
func TestOldStores(t *testing.T) {
	if !leak.Apart(t) {
		return
	}
	formats, err := filepath.Glob(filepath.Join(oldStores, "format-*"))
	if err != nil || len(formats) == 0 {
		t.Fatalf("%v, %v: there is no old store", formats, err)
	}
	for _, format := range formats {
		text, err := os.ReadFile(filepath.Join(format, "roles.json"))
		var r roles
		if err == nil {
			err = json.Unmarshal(text, &r)
		}
		if err != nil {
			t.Fatal(err)
		}
		for _, kind := range []string{"closed", "killed"} {
			t.Run(filepath.Base(format)+"/"+kind, func(t *testing.T) {
				dir := filepath.Join(t.TempDir(), "store")
				if err := os.CopyFS(dir, os.DirFS(filepath.Join(format, kind))); err != nil {
					t.Fatal(err)
				}
				if damages := verify(t, dir); len(damages) > 0 {
					t.Errorf("it is damaged: %v", damages)
				}
				readOld(t, openQueue(t, keepAll(dir)), r)
			})
		}
	}
}

// verify gives the damages of a folder.
func verify(t *testing.T, dir string) (all []pebble.Damage) {
	t.Helper()
	_, err := pebble.Verify(t.Context(), pebble.Config{Dir: dir, Check: record.Check}, func(d pebble.Damage) { all = append(all, d) })
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// TestVerifyReadsRecords puts a job into a store that is not as the queue wrote it.
func TestVerifyReadsRecords(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "store")
	e, err := embedded.At(dir).Open(t.Context(), engine.Options{Namespace: "main"})
	if err != nil {
		t.Fatal(err)
	}
	put := func(id string, change byte) {
		j := record.Job{ID: id, Job: job.Job{Name: "a", Queue: "default"}}
		m := j.Message()
		m.Data[len(m.Data)-1] ^= change
		put := make(chan error, 1)
		e.Put(m, func(_ uint64, err error) { put <- err })
		if err := <-put; err != nil {
			t.Fatal(err)
		}
	}
	const bad = "01ARZ3NDEKTSV4RRFFQ69G5FAB"
	put("01ARZ3NDEKTSV4RRFFQ69G5FAA", 0)
	put(bad, 4)
	put("01ARZ3NDEKTSV4RRFFQ69G5FAC", 0)
	if err := e.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	damages := verify(t, dir)
	if len(damages) != 1 || damages[0].Kind != "record" || damages[0].Job != bad || !strings.Contains(damages[0].Text, "checksum") {
		t.Errorf("the damages are %+v, want the record of %s", damages, bad)
	}
}

func readOld(t *testing.T, q *queue.Queue, r roles) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	states := map[string]job.State{
		r.Waiting: job.Queued, r.Keyed: job.Queued, r.Later: job.Scheduled, r.Chain: job.Queued,
		r.Done: job.Done, r.Dead: job.Dead, r.Canceled: job.Canceled, r.Members[0]: job.Queued, r.Members[1]: job.Queued,
	}
	for id, want := range states {
		if i, err := q.Get(ctx, id); err != nil || i.State != want {
			t.Errorf("job %s is %+v, %v; want it %v", id, i, err, want)
		}
	}
	if i, err := q.Get(ctx, r.Waiting); err != nil || i.Meta["a"] != "b" || i.Priority != job.High || i.Group != "tenant" || string(i.Payload) != "waiting" {
		t.Errorf("the job that waits is %+v, %v", i, err)
	}
	if result, err := q.Wait(ctx, r.Done); err != nil || string(result.Payload) != "done!" {
		t.Errorf("the outcome is %q, %v", result.Payload, err)
	}
	if d, err := q.GetDead(ctx, r.Dead); err != nil || string(d.Payload) != "dead" {
		t.Errorf("the dead job is %+v, %v", d, err)
	}
	if ref, err := q.Enqueue(ctx, job.Job{Queue: "waits", Name: "upper", Key: "the-key"}); err != nil || ref.ID != r.Keyed || !ref.Existing {
		t.Errorf("a job of the same key is %+v, %v; want the old one, %s", ref, err, r.Keyed)
	}
	if s, err := q.GetSchedule(ctx, "nightly"); err != nil || s.Cron != "0 3 * * *" || !s.Paused {
		t.Errorf("the schedule is %+v, %v", s, err)
	}
	groups, err := q.Groups(ctx, "waits")
	if err != nil || !slices.ContainsFunc(groups, func(g job.GroupInfo) bool { return g.Group == "tenant" && g.Limits.Concurrency == 3 }) {
		t.Errorf("the groups are %+v, %v", groups, err)
	}
	if d, err := q.Depth(ctx, "paused"); err != nil || !d[0].Paused {
		t.Errorf("the paused queue is %+v, %v", d, err)
	}
	stop := startWork(t, q, writers(t), queue.WorkConfig{Queue: "waits"})
	defer stop()
	for id, want := range map[string]string{r.Waiting: "waiting!", r.Keyed: "keyed!", r.Members[1]: "2!"} {
		if result, err := q.Wait(ctx, id); err != nil || string(result.Payload) != want {
			t.Errorf("job %s gives %q, %v; want %q", id, result.Payload, err, want)
		}
	}
	if result, err := q.WaitChain(ctx, r.Chain); err != nil || string(result.Payload) != "chain!!" {
		t.Errorf("the chain gives %q, %v", result.Payload, err)
	}
	if b, err := q.WaitBatch(ctx, r.Batch); err != nil || b.OK != 2 {
		t.Errorf("the batch ends as %+v, %v", b, err)
	}
}
