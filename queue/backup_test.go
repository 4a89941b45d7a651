package queue_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/bullpen-run/bullpen/queue"
)

func TestBackupOfMemory(t *testing.T) {
	t.Parallel()
	q, err := queue.Open(t.Context(), queue.Config{Store: queue.Memory()})
	if err != nil {
		t.Fatal(err)
	}
	defer q.Close()
	err = q.Backup(t.Context(), "folder")
	if !errors.Is(err, queue.ErrBackup) || !errors.Is(err, errors.ErrUnsupported) || !strings.Contains(err.Error(), "nothing to save") {
		t.Errorf("Backup = %v, want ErrBackup and ErrUnsupported with words", err)
	}
}

func ExampleQueue_Backup() {
	q, err := queue.Open(context.Background(), queue.Config{Store: queue.Memory()})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer q.Close()
	// Only a queue on a folder, of package queue/embedded, has something to copy.
	fmt.Println(errors.Is(q.Backup(context.Background(), "/var/backups/monday"), errors.ErrUnsupported))
	// Output: true
}
