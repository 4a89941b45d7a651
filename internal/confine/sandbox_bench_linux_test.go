package confine

import (
	"os"
	"testing"

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
		{"thread+namespaces", func() error { return current.sandbox.enter(current.view, temp) }},
		{"thread+landlock+seccomp", func() error {
			ruleset, err := current.sandbox.ruleset(nil, temp)
			if err != nil {
				return err
			}
			defer unix.Close(ruleset)
			return current.sandbox.restrict(ruleset)
		}},
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
	b.Run("prepare", func(b *testing.B) {
		for b.Loop() {
			p, err := s.Prepare(temp)
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
