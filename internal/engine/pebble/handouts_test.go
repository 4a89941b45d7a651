package pebble

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/bullpen-run/bullpen/internal/engine"
)

// A job that has ended stays noted as handed out until its end survives the death of the
// process: else one that is killed leaves the job, and nothing says that it has run.
func TestNoteStaysUntilTheEndIsSynced(t *testing.T) {
	t.Parallel()
	var armed atomic.Bool
	reached, release := make(chan struct{}), make(chan struct{})
	once := sync.OnceFunc(func() { close(reached) })
	disk := &cutter{FS: vfs.NewCrashableMem(), cuts: func(after string) {
		if after == "sync" && armed.Load() {
			once()
			<-release
		}
	}}
	opened, err := store{fs: disk, dir: "store"}.Open(t.Context(), engine.Options{Lease: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	e := opened.(*Engine)
	defer e.Close(t.Context())
	stored := make(chan error, 1)
	e.Put(engine.Put{Subject: "job.mail.normal.1", Data: []byte("data"), New: true}, func(_ uint64, err error) { stored <- err })
	if err := <-stored; err != nil {
		t.Fatal(err)
	}
	d := takeSome(t, e, engine.Consumer{Queue: "mail", Priority: "normal"}, 1)[0]
	note := handout{e.space, d.Seq}
	for e.handouts.changed() { // its sync must not be the one that is waited for
		<-time.After(time.Millisecond)
	}
	armed.Store(true)
	ended := make(chan error, 1)
	d.End([]engine.Put{{Stream: engine.Outcomes, Subject: "out.1", Data: []byte("ok")}}, func(err error) { ended <- err })
	<-reached
	if !e.handouts.had(note) {
		t.Error("the note is gone, and the end is not synced")
	}
	armed.Store(false)
	close(release)
	if err := <-ended; err != nil || e.handouts.had(note) {
		t.Errorf("%v; the note is there after the end: %v", err, e.handouts.had(note))
	}
}
