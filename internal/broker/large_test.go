package broker

import (
	"bytes"
	"context"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
)

// TestLargeMessages stores messages of up to the bound, and reads them again
// after the next start. It also shows that the server's advice against them is
// no complaint about the store.
func TestLargeMessages(t *testing.T) {
	if testing.Short() {
		t.Skip("it stores 60 MB: run it without -short")
	}
	t.Parallel()
	var log journal
	c := Config{Dir: t.TempDir(), Logger: log.logger()}
	b, err := Open(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	js, end := connect(t, b)
	sizes := []int{2 << 20, 9 << 20, largestMessage - 1<<10}
	large := make([]byte, largestMessage)
	source := rand.NewChaCha8([32]byte{1})
	_, _ = source.Read(large) // never fails
	for _, n := range sizes {
		if _, err := js.Publish(t.Context(), "s.a", large[:n]); err != nil {
			t.Fatalf("a message of %d bytes: %v", n, err)
		}
	}
	if _, err := js.PublishMsg(t.Context(), &nats.Msg{Subject: "s.a", Data: append(large, 0)}); err == nil {
		t.Error("a message beyond the bound was taken")
	}
	end()
	shut(t, b)
	b = open(t, c)
	js, _ = connect(t, b)
	// The client's own 5 s are too few for 33 MB on a busy machine with race detector.
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	s, err := js.Stream(ctx, "S")
	if err != nil {
		t.Fatal(err)
	}
	for i, n := range sizes {
		m, err := s.GetMsg(ctx, uint64(i+1))
		if err != nil || !bytes.Equal(m.Data, large[:n]) {
			t.Errorf("the message of %d bytes cannot be read again: %v", n, err)
		}
	}
	if d := b.Damage(); len(d) > 0 {
		t.Errorf("damage was found: %q", d)
	}
}
