package broker

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/bullpen-run/bullpen/internal/engine"
)

// victimDir, when set, makes this test binary the process that is killed.
const victimDir = "BULLPEN_BROKER_VICTIM"

// victim stores and ends jobs until it is killed. It says "+id" and "-id" after
// each confirm, and "?id" before it asks for the confirm of an end.
func victim(dir string) int {
	sys := thisSystem()
	if os.Getenv(victimDir+"_GROUP") != "" {
		sys = grouped()
	}
	b, err := Open(context.Background(), Config{Dir: dir, instead: sys})
	if err != nil {
		fmt.Println("!", err)
		return 1
	}
	nc, err := nats.Connect("", nats.InProcessServer(b.Server()))
	if err != nil {
		return 1
	}
	js, err := jetstream.New(nc)
	if err != nil {
		return 1
	}
	if _, err := js.CreateOrUpdateStream(context.Background(), jetstream.StreamConfig{Name: "S", Subjects: []string{"s.>"}}); err != nil {
		fmt.Println("!", err)
		return 1
	}
	var out sync.Mutex
	say := func(sign, id string) {
		out.Lock()
		defer out.Unlock()
		_, _ = os.Stdout.WriteString(sign + id + "\n")
	}
	var all sync.WaitGroup
	base := int(time.Now().UnixNano()) // ids differ from round to round
	for w := range 16 {
		all.Go(func() {
			for n := w; ; n += 16 {
				id := number(base + n)
				if _, err := js.Publish(context.Background(), "s."+id, []byte("job")); err != nil {
					return
				}
				if confirm(b, engine.Entry{Kind: engine.Accepted, ID: id}) != nil {
					return
				}
				say("+", id)
				if n%3 != 0 {
					say("?", id)
					if confirm(b, engine.Entry{Kind: engine.Ended, ID: id}) != nil {
						return
					}
					say("-", id)
				}
				if err := b.Mark(mail, uint64(base+n)); err != nil {
					return
				}
			}
		})
	}
	all.Wait()
	return 1
}

// TestKilled shows that every job whose confirm was called is in the ledger, but
// for those of the last moments, which are stored all the same.
func TestKilled(t *testing.T) {
	dir := t.TempDir()
	open, ending := map[string]time.Time{}, map[string]bool{}
	for round := range 3 {
		killed := kill(t, dir, 300+100*round, open, ending)
		b, err := Open(t.Context(), Config{Dir: dir, instead: grouped()})
		if err != nil {
			t.Fatal(err)
		}
		ids, known := b.Unended()
		if !known || len(b.Damage()) > 0 {
			t.Errorf("known is %v, damage %v", known, b.Damage())
		}
		if _, sure := b.Marked(mail); !sure && runtime.GOOS == "linux" {
			t.Error("the marks are not sure after a kill")
		}
		js, hangUp := connect(t, b)
		s, err := js.Stream(t.Context(), "S")
		if err != nil {
			t.Fatal(err)
		}
		there := map[string]bool{}
		for _, id := range ids {
			there[id] = true
			if !open[id].IsZero() || ending[id] {
				continue
			}
			// Confirmed on the disk and killed before the callback: it must be stored.
			if _, err := s.GetLastMsgForSubject(t.Context(), "s."+id); err != nil {
				t.Errorf("round %d: job %s is in the ledger and not in the store: %v", round, id, err)
			}
			open[id] = killed // it stays so for the next rounds
		}
		for id, when := range open {
			if there[id] {
				continue
			}
			if before := killed.Sub(when); before > time.Second {
				t.Errorf("round %d: job %s was confirmed %v before the end and is not in the ledger", round, id, before)
			}
			if _, err := s.GetLastMsgForSubject(t.Context(), "s."+id); err != nil {
				t.Errorf("round %d: job %s was confirmed and is not in the store: %v", round, id, err)
			}
			delete(open, id)
		}
		t.Logf("round %d: %d open", round, len(open))
		hangUp()
		shut(t, b)
	}
}

// kill runs a victim until it has said enough, and kills it. open is what it has
// confirmed and not begun to end, ending what it may have ended.
func kill(t *testing.T, dir string, lines int, open map[string]time.Time, ending map[string]bool) (killed time.Time) {
	t.Helper()
	c := exec.CommandContext(t.Context(), os.Args[0])
	c.Env = append(os.Environ(), victimDir+"="+dir, victimDir+"_GROUP=1")
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	lined := bufio.NewScanner(out)
	for n := 0; lined.Scan(); n++ {
		sign, id := lined.Text()[:1], lined.Text()[1:]
		switch sign {
		case "+":
			open[id] = time.Now()
		case "?":
			delete(open, id)
			ending[id] = true
		case "-":
			delete(ending, id)
		default:
			t.Error(lined.Text())
		}
		if n == lines {
			killed = time.Now()
			if err := c.Process.Kill(); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := c.Wait(); err == nil || !strings.Contains(err.Error(), "kill") && runtime.GOOS != "windows" {
		t.Errorf("the victim ended by itself: %v", err)
	}
	return killed
}
