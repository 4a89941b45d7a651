package confine

import (
	"errors"
	"os"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// BenchmarkSandboxStart is the whole life of /bin/true.
func BenchmarkSandboxStart(b *testing.B) {
	for _, c := range []struct {
		name    string
		profile Profile
	}{
		{"none", Profile{Guard: true}},
		{"nonewprivs", Profile{Guard: true, NoNewPrivs: true, NoCore: true}},
		{"strict", Profile{Guard: true, Strict: &Strict{}}},
		{"strict-network", Profile{Guard: true, Strict: &Strict{Network: true}}},
	} {
		b.Run(c.name, func(b *testing.B) {
			s := newSpawner(b, c.profile)
			temp := temporary(b)
			for b.Loop() {
				if _, err := begin(b, s, Spec{Path: "/bin/true", Temp: temp}).Wait(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkSandboxParts is what putting a thread into a sandbox takes, without
// any process.
func BenchmarkSandboxParts(b *testing.B) {
	needStrict(b)
	s := newSpawner(b, Profile{Guard: true, Strict: &Strict{}})
	s.mu.Lock()
	current := s.current
	s.mu.Unlock()
	temp := temporary(b)
	release, err := current.view.addFolder(temp)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(release)
	for _, c := range []struct {
		name string
		do   func() error
	}{
		{"thread", func() error { return nil }},
		{"thread+profile", current.apply},
		{"thread+namespaces", func() error { return current.sandbox.enter(current.view, temp, nil) }},
	} {
		b.Run(c.name, func(b *testing.B) {
			answer := make(chan error)
			for b.Loop() {
				onOwnThread(func() { answer <- c.do() })
				if err := <-answer; err != nil {
					b.Fatal(err)
				}
			}
		})
	}
	b.Run("landlock+seccomp", func(b *testing.B) { benchmarkRestriction(b, current.sandbox, temp) })
	b.Run("prepare", func(b *testing.B) {
		for b.Loop() {
			p, err := s.Prepare(temp, nil)
			if err != nil {
				b.Fatal(err)
			}
			if err := p.Close(); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("spawner", func(b *testing.B) {
		for b.Loop() {
			s, err := NewSpawner(Profile{Guard: true, Strict: &Strict{Read: []string{os.TempDir()}}})
			if err != nil {
				b.Fatal(err)
			}
			s.Close()
		}
	})
}

// benchmarkRestriction measures what landlock and the filter cost, from the making
// of the rules on. The thread, on which that can be done only once, and what it
// gives up before are not counted.
func benchmarkRestriction(b *testing.B, confined *sandbox, temp string) {
	b.Helper()
	restrict := func() (time.Duration, error) {
		if err := errors.Join(setNoNewPrivs(), dropCapabilities()); err != nil {
			return 0, err
		}
		began := time.Now()
		ruleset, err := confined.ruleset(nil, temp)
		if err != nil {
			return 0, err
		}
		defer unix.Close(ruleset)
		err = errors.Join(landRestrict(ruleset), installFilter(confined.filter))
		return time.Since(began), err
	}
	type answer struct {
		took time.Duration
		err  error
	}
	answers := make(chan answer)
	var all time.Duration
	for b.Loop() {
		onOwnThread(func() {
			took, err := restrict()
			answers <- answer{took, err}
		})
		got := <-answers
		if got.err != nil {
			b.Fatal(got.err)
		}
		all += got.took
	}
	b.ReportMetric(float64(all)/float64(b.N), "ns/op")
}
