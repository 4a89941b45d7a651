package natstest

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

// three starts three servers with a stream that all of them keep.
func three(t *testing.T) (*Servers, jetstream.JetStream, context.Context) {
	t.Helper()
	if testing.Short() {
		t.Skip("it starts three servers: run it without -short")
	}
	t.Parallel()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	began := time.Now()
	k := Start(t, Config{Servers: 3})
	t.Logf("started after %v", time.Since(began))
	js := client(t, k.URL())
	_, err := js.CreateStream(ctx, jetstream.StreamConfig{Name: "S", Subjects: []string{"s.>"}, Replicas: 3, Storage: jetstream.FileStorage})
	if err != nil {
		t.Fatal(err)
	}
	return k, js, ctx
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

// confirms reports whether a message is confirmed within half a second.
func confirms(ctx context.Context, js jetstream.JetStream) bool {
	try, cancel := context.WithTimeout(ctx, 500*time.Millisecond)
	defer cancel()
	_, err := js.Publish(try, "s.x", []byte("one more"))
	return err == nil
}

// count waits until there are so many messages at least.
func count(ctx context.Context, t *testing.T, js jetstream.JetStream, least uint64) {
	t.Helper()
	for n := uint64(0); n < least; {
		try, cancel := context.WithTimeout(ctx, time.Second)
		s, err := js.Stream(try, "S")
		cancel()
		if err == nil {
			n = s.CachedInfo().State.Msgs
		}
		if ctx.Err() != nil {
			t.Fatalf("%d messages, want at least %d; %v", n, least, err)
		}
	}
}

func TestOneServer(t *testing.T) {
	t.Parallel()
	k := Start(t, Config{})
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	js := client(t, k.URL())
	if _, err := js.CreateStream(ctx, jetstream.StreamConfig{Name: "S", Subjects: []string{"s.>"}}); err != nil {
		t.Fatal(err)
	}
	publish(ctx, t, js, 0)
	k.Pause(0)
	if confirms(ctx, js) {
		t.Error("a paused server confirms")
	}
	k.Resume(0)
	count(ctx, t, js, 1)
	url := k.URL()
	k.Kill(0)
	k.Restart(0)
	if k.URL() != url {
		t.Errorf("started again the server is at %s, before at %s", k.URL(), url)
	}
	publish(ctx, t, js, 1)
	k.Stop(0)
	k.Restart(0)
	k.Wait()
	count(ctx, t, js, 2)
}

func TestOneOfThreeIsKilledAndComesBack(t *testing.T) {
	k, js, ctx := three(t)
	for n := range 20 {
		publish(ctx, t, js, n)
	}
	gone := k.Leader()
	k.Kill(gone)
	for n := range 20 {
		publish(ctx, t, js, 20+n)
	}
	k.Restart(gone)
	k.Wait()
	count(ctx, t, client(t, k.URLs()[gone]), 40)
}

func TestOneOfThreeIsCutOff(t *testing.T) {
	k, js, ctx := three(t)
	publish(ctx, t, js, 0)
	alone := k.Leader()
	k.Cut(alone)
	k.Wait()
	if now := k.Leader(); now == alone || now < 0 {
		t.Errorf("leader %d after %d was cut off", now, alone)
	}
	others := client(t, k.URLs()[(alone+1)%3], k.URLs()[(alone+2)%3])
	for n := range 10 {
		publish(ctx, t, others, 1+n)
	}
	if confirms(ctx, client(t, k.URLs()[alone])) {
		t.Error("a server that was cut off confirms")
	}
	k.Heal(alone)
	k.Wait()
	// The old leader of the stream may answer until it has heard of the new one.
	count(ctx, t, others, 11)
}

func TestTwoOfThreeArePaused(t *testing.T) {
	k, js, ctx := three(t)
	publish(ctx, t, js, 0)
	k.Pause(0)
	k.Pause(1)
	if confirms(ctx, client(t, k.URLs()[2])) {
		t.Error("one server of three confirms")
	}
	k.Resume(0)
	k.Resume(1)
	k.Wait()
	publish(ctx, t, js, 1)
}
