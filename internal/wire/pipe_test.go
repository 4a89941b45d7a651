//go:build unix

package wire

import (
	"bytes"
	"errors"
	"io"
	"os"
	"testing"
	"time"

	"github.com/bullpen-run/bullpen/internal/confine"
	"github.com/bullpen-run/bullpen/internal/leak"
)

func TestMain(m *testing.M) { leak.Main(m) }

// TestWriterNeverWaits fills a pipe that nobody reads.
func TestWriterNeverWaits(t *testing.T) {
	child, host, err := confine.HostWritePipe()
	if err != nil {
		t.Fatal(err)
	}
	defer child.Close()
	w, err := NewWriter(host)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	block := bytes.Repeat([]byte("x"), 100_000)
	n, err := w.Try(block)
	if err != nil || n == 0 || n == len(block) {
		t.Fatalf("Try wrote %d of %d bytes, %v", n, len(block), err)
	}
	if unread, err := w.Unread(); err == nil && unread != n {
		t.Errorf("%d bytes are unread, want %d", unread, n)
	}
	if _, err := io.CopyN(io.Discard, child, int64(n)); err != nil {
		t.Fatal(err)
	}
	if unread, err := w.Unread(); err == nil && unread != 0 {
		t.Errorf("%d bytes are unread after all was read", unread)
	}
	_ = child.Close()
	if _, err := w.Try(block); err == nil {
		t.Error("writing to a pipe without reader gives no error")
	}
}

func TestReader(t *testing.T) {
	child, host, err := confine.HostReadPipe()
	if err != nil {
		t.Fatal(err)
	}
	defer child.Close()
	r, err := NewReader(host)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	buffer := make([]byte, 10)
	read := func() (n int, got error) {
		if err := r.Control(func(fd uintptr) { n, got = ReadNow(fd, buffer) }); err != nil {
			t.Fatal(err)
		}
		return n, got
	}
	if n, err := read(); n != 0 || !errors.Is(err, ErrAgain) {
		t.Errorf("an empty pipe gives %d, %v", n, err)
	}
	if err := r.SetDeadline(time.Now().Add(time.Millisecond)); err != nil {
		t.Fatal(err)
	}
	if err := r.Wait(func(uintptr) bool { return false }); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("Wait ended with %v", err)
	}
	if err := r.SetDeadline(time.Time{}); err != nil {
		t.Fatal(err)
	}
	if _, err := child.WriteString("hello"); err != nil {
		t.Fatal(err)
	}
	var n int
	if err := r.Wait(func(fd uintptr) bool { n, err = ReadNow(fd, buffer); return err == nil }); err != nil || n != 5 {
		t.Errorf("Wait gave %d bytes, %v", n, err)
	}
	_ = child.Close()
	if n, err := read(); n != 0 || !errors.Is(err, io.EOF) {
		t.Errorf("the end gives %d, %v", n, err)
	}
}
