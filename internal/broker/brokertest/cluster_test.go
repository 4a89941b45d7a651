package brokertest

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/bullpen-run/bullpen/internal/leak"
)

func TestMain(m *testing.M) { leak.Main(m) }

// patience is for a slow machine; all waits end as soon as they can.
const patience = 60 * time.Second

func start(t *testing.T) (*Cluster, context.Context) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	began := time.Now()
	k, err := Start(ctx, Config{Dirs: []string{t.TempDir(), t.TempDir(), t.TempDir()}})
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("started after %v", time.Since(began))
	t.Cleanup(func() {
		if err := k.Close(ctx); err != nil {
			t.Error(err)
		}
	})
	return k, ctx
}

// client returns a client of the given servers.
func client(t *testing.T, urls ...string) jetstream.JetStream {
	t.Helper()
	nc, err := nats.Connect(strings.Join(urls, ","), nats.MaxReconnects(-1), nats.ReconnectWait(50*time.Millisecond))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	return js
}

// publish tries until it is stored.
func publish(ctx context.Context, t *testing.T, js jetstream.JetStream, n int) {
	t.Helper()
	for {
		try, cancel := context.WithTimeout(ctx, time.Second)
		_, err := js.Publish(try, "s.x", fmt.Append(nil, n), jetstream.WithMsgID(fmt.Sprint(n)))
		cancel()
		if err == nil {
			return
		}
		if ctx.Err() != nil {
			t.Fatalf("message %d: %v", n, err)
		}
	}
}

func create(ctx context.Context, t *testing.T, js jetstream.JetStream) {
	t.Helper()
	_, err := js.CreateStream(ctx, jetstream.StreamConfig{Name: "S", Subjects: []string{"s.>"}, Replicas: 3, Storage: jetstream.FileStorage})
	if err != nil {
		t.Fatal(err)
	}
}

func count(ctx context.Context, t *testing.T, js jetstream.JetStream) uint64 {
	t.Helper()
	for {
		try, cancel := context.WithTimeout(ctx, time.Second)
		s, err := js.Stream(try, "S")
		cancel()
		if err == nil {
			return s.CachedInfo().State.Msgs
		}
		if ctx.Err() != nil {
			t.Fatal(err)
		}
	}
}

func TestOneOfThreeIsKilledAndComesBack(t *testing.T) {
	if testing.Short() {
		t.Skip("it starts three servers: run it without -short")
	}
	k, ctx := start(t)
	js := client(t, k.URLs()...)
	create(ctx, t, js)
	for n := range 20 {
		publish(ctx, t, js, n)
	}
	gone := k.Leader()
	if err := k.Kill(ctx, gone); err != nil {
		t.Fatal(err)
	}
	if k.Node(gone) != nil {
		t.Error("a killed server is there")
	}
	for n := range 20 {
		publish(ctx, t, js, 20+n)
	}
	if err := k.Restart(ctx, gone); err != nil {
		t.Fatal(err)
	}
	if err := k.Restart(ctx, gone); err == nil {
		t.Error("a server was started twice")
	}
	if err := k.Wait(ctx); err != nil {
		t.Fatal(err)
	}
	if n := count(ctx, t, client(t, k.URLs()[gone])); n != 40 {
		t.Errorf("%d messages, want 40", n)
	}
	b := k.Node(gone)
	if !strings.Contains(b.Durability(), "most servers") || b.Fallback() != "" {
		t.Errorf("Durability() = %q, Fallback() = %q", b.Durability(), b.Fallback())
	}
	if _, known := b.Unended(); known {
		t.Error("a cluster counts jobs")
	}
}

func TestOneOfThreeIsCutOff(t *testing.T) {
	if testing.Short() {
		t.Skip("it starts three servers: run it without -short")
	}
	k, ctx := start(t)
	js := client(t, k.URLs()...)
	create(ctx, t, js)
	publish(ctx, t, js, 0)
	alone := k.Leader()
	k.Cut(alone)
	if err := k.Wait(ctx); err != nil {
		t.Fatal(err)
	}
	if now := k.Leader(); now == alone || now < 0 {
		t.Errorf("leader %d after %d was cut off", now, alone)
	}
	others := client(t, k.URLs()[(alone+1)%3], k.URLs()[(alone+2)%3])
	for n := range 10 {
		publish(ctx, t, others, 1+n)
	}
	// The one that is cut off must not confirm anything.
	try, cancel := context.WithTimeout(ctx, 500*time.Millisecond)
	defer cancel()
	if _, err := client(t, k.URLs()[alone]).Publish(try, "s.x", []byte("lost")); err == nil {
		t.Error("a server that was cut off confirms")
	}
	k.Heal(alone)
	if err := k.Wait(ctx); err != nil {
		t.Fatal(err)
	}
	// The old leader of the stream may answer until it has heard of the new one.
	for n := count(ctx, t, others); n < 11; n = count(ctx, t, others) {
		if ctx.Err() != nil {
			t.Fatalf("%d messages, want at least 11", n)
		}
	}
}

func TestOneServerIsNoCluster(t *testing.T) {
	t.Parallel()
	if _, err := Start(t.Context(), Config{Dirs: []string{t.TempDir()}}); err == nil {
		t.Error("one server became a cluster")
	}
}
