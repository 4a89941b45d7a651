package settings

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/nats-io/nats.go"

	"github.com/bullpen-run/bullpen/process"
	"github.com/bullpen-run/bullpen/queue"
	"github.com/bullpen-run/bullpen/queue/embedded"
)

// defaultPayload is the default limit of payloads and results on an embedded or
// in-memory store.
const defaultPayload = 8 << 20

// complete fills in defaults that depend on other values, and converts the settings
// to the form that the daemon needs.
func (l *loader) complete() {
	s := l.settings
	if s.Node == "" {
		if s.Node, _ = os.Hostname(); s.Node == "" {
			s.Node = "node"
		}
	}
	if s.Budget != nil && *s.Budget == (process.BudgetConfig{}) {
		s.Budget = nil
	}
	l.completeStore()
	l.completeTraces()
	s.Queue.Node = s.Node
	s.Queue.Store = l.store()
	for name, p := range s.Pools {
		l.completePool(name, &p)
		s.Pools[name] = p
	}
}

func (l *loader) completeStore() {
	s := &l.settings.Store
	if s.Dir == "" && s.URL == "" && !s.Memory {
		if state, _, _ := strings.Cut(l.env["STATE_DIRECTORY"], ":"); state != "" {
			s.Dir = filepath.Join(state, "queue")
		} else {
			s.Dir = filepath.Join(l.folder, "bullpen-data")
		}
	}
	if s.URL != "" {
		s.Replicas = max(s.Replicas, 1)
		return // the server bounds the size of messages
	}
	for _, n := range []*int{&l.settings.Queue.MaxPayload, &l.settings.Queue.MaxResult} {
		if *n == 0 {
			*n = defaultPayload
		}
	}
}

// store returns the store of the queue.
func (l *loader) store() queue.Store {
	s := &l.settings.Store
	switch {
	case s.Memory:
		return queue.Memory()
	case s.URL != "":
		return queue.Server{URL: s.URL, Replicas: s.Replicas, Options: s.options()}
	}
	return embedded.Store{Dir: s.Dir, Reserve: s.Reserve}
}

// options returns the options of a connection to a NATS server.
func (s *Store) options() []nats.Option {
	var options []nats.Option
	if s.Credentials != "" {
		options = append(options, nats.UserCredentials(s.Credentials))
	}
	if s.login != nil {
		if password, set := s.login.Password(); set {
			options = append(options, nats.UserInfo(s.login.Username(), password))
		} else {
			options = append(options, nats.Token(s.login.Username()))
		}
	}
	if s.CA != "" {
		options = append(options, nats.RootCAs(s.CA))
	}
	if s.Cert != "" && s.Key != "" {
		options = append(options, nats.ClientCert(s.Cert, s.Key))
	}
	return options
}

func (l *loader) completePool(name string, p *Pool) {
	at := "pools." + name + "."
	p.Process.Overflow = process.Reject
	if p.Task == "" {
		p.Task = name
	}
	if p.Process.Dir == "" {
		p.Process.Dir = l.folder
	}
	if p.Process.Max == 0 {
		p.Process.Max = max(runtime.GOMAXPROCS(0), p.Process.Min)
	}
	if !l.given(at + "helpers") {
		p.Helpers = p.Process.Max
	}
}

// given reports whether a key was set, validly or not.
func (l *loader) given(path string) bool {
	_, ok := l.positions[path]
	return ok
}

// givenBelow reports whether a key within a mapping was set.
func (l *loader) givenBelow(section string) bool {
	for path := range l.positions {
		if strings.HasPrefix(path, section+".") {
			return true
		}
	}
	return false
}

// fault records a fault of a key, at the position where the key, or else its mapping,
// was set.
func (l *loader) fault(path, format string, args ...any) {
	for at := path; ; {
		if p, ok := l.positions[at]; ok {
			if at != path {
				p.name = "" // it is the name of another key
			}
			l.journal.add(p, path, format, args...)
			return
		}
		dot := strings.LastIndexByte(at, '.')
		if dot < 0 {
			l.journal.add(position{level: ofFile, line: 1, column: 1}, path, format, args...)
			return
		}
		at = at[:dot]
	}
}
