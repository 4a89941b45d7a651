package embedded_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/bullpen-run/bullpen/job"
	"github.com/bullpen-run/bullpen/queue"
	"github.com/bullpen-run/bullpen/queue/embedded"
)

func TestBackup(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	q, err := queue.Open(t.Context(), queue.Config{Store: embedded.At(filepath.Join(folder, "jobs"))})
	if err != nil {
		t.Fatal(err)
	}
	defer q.Close()
	id, err := q.Enqueue(t.Context(), job.Job{Queue: "mails", Payload: []byte("send")})
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(folder, "backup")
	if err := q.Backup(t.Context(), dir); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{dir, ""} {
		if err := q.Backup(t.Context(), dir); !errors.Is(err, queue.ErrBackup) {
			t.Errorf("Backup to %q = %v, want ErrBackup", dir, err)
		}
	}
	copied, err := queue.Open(t.Context(), queue.Config{Store: embedded.At(dir)})
	if err != nil {
		t.Fatal(err)
	}
	defer copied.Close()
	if info, err := copied.Get(t.Context(), id.ID); err != nil || info.State != job.Queued {
		t.Errorf("Get = %+v, %v, want the job that waits", info, err)
	}
}

func ExampleStore_backup() {
	folder, err := os.MkdirTemp("", "example")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(folder)
	ctx := context.Background()
	q, err := queue.Open(ctx, queue.Config{Store: embedded.At(filepath.Join(folder, "jobs"))})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer q.Close()
	fmt.Println(q.Backup(ctx, filepath.Join(folder, "monday")))
	// Output: <nil>
}
