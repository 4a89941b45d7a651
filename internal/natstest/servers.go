package natstest

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// Config says what servers to start. The zero value is one, by itself.
type Config struct {
	// Servers is how many; several are a cluster. Default 1.
	Servers int
	// Lazy lets the servers sync every two minutes, which is their default, instead
	// of each message before its confirm.
	Lazy bool
	// Extra is added to the configuration of each server.
	Extra string
}

// Servers are running servers. Its methods are for the goroutine of the test, which
// they fail when they cannot do what they say. A server is named by its number from
// 0 on; its server_name is "node" and the number.
type Servers struct {
	tb    testing.TB
	all   []*server
	links [][]*link // by who connects and whom it connects to; nil to itself
}

// Start returns servers that can store. They are killed at the end of the test, and
// what they said last is shown when it has failed.
func Start(tb testing.TB, c Config) *Servers {
	tb.Helper()
	k := &Servers{tb: tb}
	dir := tb.TempDir() // which is removed after close
	tb.Cleanup(k.close)
	n := max(c.Servers, 1)
	for i := range n {
		row := make([]*link, n)
		var routes []string
		for j := range n {
			if i == j {
				continue
			}
			l, err := newLink(tb.Context())
			if err != nil {
				tb.Fatalf("the link from server %d to server %d: %v", i, j, err)
			}
			row[j] = l
			routes = append(routes, l.address())
		}
		k.links = append(k.links, row)
		s := &server{name: fmt.Sprintf("node%d", i), c: c, routes: routes, client: anyPort, cluster: anyPort, monitor: anyPort}
		s.dir = filepath.Join(dir, s.name)
		if err := os.Mkdir(s.dir, 0o700); err != nil {
			tb.Fatal(err)
		}
		k.all = append(k.all, s)
	}
	for i := range k.all {
		k.start(i)
	}
	k.Wait()
	return k
}

func (k *Servers) start(i int) {
	k.tb.Helper()
	if err := k.all[i].start(); err != nil {
		k.tb.Fatalf("starting server %d: %v", i, err)
	}
	for _, row := range k.links {
		if row[i] != nil {
			row[i].lead(k.all[i].cluster)
		}
	}
}

// URLs returns where clients connect to. They stay the same when a server is started
// again.
func (k *Servers) URLs() []string {
	urls := make([]string, 0, len(k.all))
	for _, s := range k.all {
		urls = append(urls, "nats://"+s.client)
	}
	return urls
}

// URL returns the addresses of all servers in one text, with commas.
func (k *Servers) URL() string { return strings.Join(k.URLs(), ",") }

// Kill ends server i at once, so that it can hand over and write nothing.
func (k *Servers) Kill(i int) { k.all[i].kill() }

// Stop stops server i in order.
func (k *Servers) Stop(i int) {
	k.tb.Helper()
	if err := k.all[i].stop(); err != nil {
		k.tb.Fatal(err)
	}
}

// Restart starts server i again, after Kill or Stop, on what it had stored. Wait
// waits until it has joined the others.
func (k *Servers) Restart(i int) {
	k.tb.Helper()
	k.start(i)
}

// Pause stops server i as if its machine had halted: its connections stay open, and
// nothing is answered.
func (k *Servers) Pause(i int) {
	k.tb.Helper()
	if err := pause(k.all[i].cmd.Process); err != nil {
		k.tb.Fatalf("pausing server %d: %v", i, err)
	}
	for end := time.Now().Add(startPatience); !stopped(k.all[i].cmd.Process.Pid); <-time.After(time.Millisecond) {
		if time.Now().After(end) {
			k.tb.Fatalf("server %d does not stop", i)
		}
	}
	k.all[i].paused = true
}

// stopped reports whether all threads of a process have stopped, where /proc shows it.
func stopped(pid int) bool {
	all, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", pid))
	for _, name := range all {
		text, unread := os.ReadFile(name)
		if _, state, _ := strings.Cut(string(text), ") "); unread == nil && !strings.HasPrefix(state, "T") {
			return false
		}
	}
	return err == nil
}

// Resume undoes Pause.
func (k *Servers) Resume(i int) {
	k.tb.Helper()
	if err := resume(k.all[i].cmd.Process); err != nil {
		k.tb.Fatalf("resuming server %d: %v", i, err)
	}
	k.all[i].paused = false
}

// Cut cuts server i off from the others. Its clients still reach it.
func (k *Servers) Cut(i int) { k.each(i, (*link).cut) }

// Heal undoes Cut.
func (k *Servers) Heal(i int) { k.each(i, (*link).heal) }

// each does something to all links of server i.
func (k *Servers) each(i int, do func(*link)) {
	for a, row := range k.links {
		for b, l := range row {
			if l != nil && (a == i || b == i) {
				do(l)
			}
		}
	}
}

// isCut reports whether all links of server i are cut.
func (k *Servers) isCut(i int) bool {
	links, cut := 0, 0
	k.each(i, func(l *link) {
		links++
		if l.isCut() {
			cut++
		}
	})
	return links > 0 && cut == links
}

// waitPatience bounds how long the servers may take to agree.
const waitPatience = time.Minute

// Wait returns when all servers that run and are not cut off are connected with each
// other, agree on a leader, and can be given streams to keep.
func (k *Servers) Wait() {
	k.tb.Helper()
	ctx, cancel := context.WithTimeout(k.tb.Context(), waitPatience)
	defer cancel()
	for {
		err := k.agreed(ctx)
		if err == nil {
			return
		}
		select {
		case <-ctx.Done():
			k.tb.Fatalf("the servers have not agreed: %v", err)
		case <-time.After(poll):
		}
	}
}

// Leader returns the server that leads the cluster, -1 when those that run and are
// not cut off agree on none.
func (k *Servers) Leader() int {
	leader := ""
	for _, s := range k.members() {
		m, err := s.meta(k.tb.Context())
		if err != nil || leader != "" && m.Leader != leader {
			return -1
		}
		leader = m.Leader
	}
	return slices.IndexFunc(k.all, func(s *server) bool { return s.name == leader })
}

// members are the servers that run and are not cut off.
func (k *Servers) members() (all []*server) {
	for i, s := range k.all {
		if s.cmd != nil && !s.paused && !k.isCut(i) {
			all = append(all, s)
		}
	}
	return all
}

// agreed returns nil, or what is missing for Wait.
func (k *Servers) agreed(ctx context.Context) error {
	members := k.members()
	for _, s := range members {
		if err := s.ask(ctx, "/healthz?js-meta-only=true", nil); err != nil {
			return err
		}
	}
	if len(k.all) == 1 {
		return nil
	}
	leader := ""
	var known []string // to the leader as up to date, itself included
	for _, s := range members {
		m, err := s.meta(ctx)
		switch {
		case err != nil:
			return err
		case m.Leader == "" || leader != "" && m.Leader != leader:
			return fmt.Errorf("%s follows %q, another one %q", s.name, m.Leader, leader)
		}
		if leader = m.Leader; leader != s.name {
			continue
		}
		known = []string{s.name}
		for _, r := range m.Replicas {
			if r.Current && !r.Offline {
				known = append(known, r.Name)
			}
		}
	}
	for _, s := range members {
		var v struct{ Remotes int }
		if err := s.ask(ctx, "/varz", &v); err != nil {
			return err
		}
		if v.Remotes < len(members)-1 || !slices.Contains(known, s.name) {
			return fmt.Errorf("%s is connected with %d others, and its leader %q knows of %v", s.name, v.Remotes, leader, known)
		}
	}
	return nil
}

// meta is what a server knows of its cluster. Only the leader reports replicas.
type meta struct {
	Leader   string
	Replicas []struct {
		Name             string
		Current, Offline bool
	}
}

func (s *server) meta(ctx context.Context) (meta, error) {
	var info struct {
		Meta meta `json:"meta_cluster"`
	}
	err := s.ask(ctx, "/jsz", &info)
	return info.Meta, err
}

// askPatience bounds how long one answer may take.
const askPatience = 5 * time.Second

// ask gets a page of the monitoring port, which is nil or JSON.
func (s *server) ask(ctx context.Context, page string, to any) error {
	ctx, cancel := context.WithTimeout(ctx, askPatience)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+s.monitor+page, nil)
	if err != nil {
		return err
	}
	r.Close = true // no connection outlives its answer
	a, err := http.DefaultClient.Do(r)
	if err != nil {
		return fmt.Errorf("%s: %w", s.name, err)
	}
	defer a.Body.Close()
	if a.StatusCode != http.StatusOK {
		return fmt.Errorf("%s says %s to %s", s.name, a.Status, page)
	}
	if to == nil {
		return nil
	}
	return json.NewDecoder(a.Body).Decode(to)
}

// close ends all servers and links.
func (k *Servers) close() {
	for _, s := range k.all {
		s.kill()
		if k.tb.Failed() {
			k.tb.Logf("the last that %s said:\n%s", s.name, s.tail())
		}
	}
	for _, row := range k.links {
		for _, l := range row {
			if l != nil {
				l.close()
			}
		}
	}
}

// listen opens a free port on loopback.
func listen(ctx context.Context) (net.Listener, error) {
	var c net.ListenConfig
	return c.Listen(ctx, "tcp", "127.0.0.1:0")
}
