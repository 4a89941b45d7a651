package jet

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/bullpen-run/bullpen/internal/engine"
	"github.com/bullpen-run/bullpen/internal/natstest"
)

// info opens an engine that asks for so many replicas, and returns what it says.
func (k cluster) info(ctx context.Context, t *testing.T, replicas int) (engine.Info, error) {
	t.Helper()
	k.replicas = replicas
	e, err := k.Open(ctx, engine.Options{Namespace: "copies"})
	if err != nil {
		return engine.Info{}, err
	}
	i, err := e.Info(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if err := e.Close(ctx); err != nil {
		t.Fatal(err)
	}
	return i, nil
}

// TestReplicas raises the number of copies, and does not lower it.
func TestReplicas(t *testing.T) {
	if testing.Short() {
		t.Skip("it starts three servers: run it without -short")
	}
	k := startCluster(t)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	i, err := k.info(ctx, t, 1)
	if err != nil || i.Replicas != 1 || !strings.Contains(i.Durability, "the server at nats://127.0.0.1:") {
		t.Fatalf("one replica: %+v, %v", i, err)
	}
	i, err = k.info(ctx, t, 3)
	if err != nil || i.Replicas != 3 || !strings.HasPrefix(i.Durability, "2 of 3 servers") {
		t.Fatalf("three replicas: %+v, %v", i, err)
	}
	if _, err = k.info(ctx, t, 1); !errors.Is(err, errFewer) || !strings.Contains(err.Error(), "each job has copies on 3 servers, but this node requests 1") {
		t.Fatalf("one replica where there are three: %v", err)
	}
	k.Kill(2)
	for !strings.HasSuffix(i.Durability, "not up to date now: node2") {
		if i, err = k.info(ctx, t, 3); err != nil || i.Replicas != 3 {
			t.Fatalf("with a server lost: %+v, %v", i, err)
		}
	}
}

// TestReplicasOfOne asks a server by itself for three copies: it learns at once that
// there is no cluster.
func TestReplicasOfOne(t *testing.T) {
	t.Parallel()
	k := cluster{natstest.Start(t, natstest.Config{}), 3}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	began := time.Now()
	_, err := k.info(ctx, t, 3)
	if err == nil || !strings.Contains(err.Error(), "run three servers as a cluster (cluster.routes), or set replicas to 1") {
		t.Errorf("three replicas on one server: %v", err)
	}
	if took := time.Since(began); took > 20*time.Second {
		t.Errorf("it was refused after %v", took)
	}
}

// TestLacking has a server that leaves out what it does not understand.
func TestLacking(t *testing.T) {
	asked := jetstream.StreamConfig{Replicas: 3, AllowMsgSchedules: true, AllowDirect: true}
	if lacks := lacking(asked, asked); lacks != "" {
		t.Errorf("a server that keeps all lacks %q", lacks)
	}
	kept := jetstream.StreamConfig{Replicas: 1, PersistMode: jetstream.AsyncPersistMode, AllowDirect: true}
	const want = "3 replicas, a sync before the confirm (its persist_mode is async), scheduled messages"
	if lacks := lacking(asked, kept); lacks != want {
		t.Errorf("it lacks %q, want %q", lacks, want)
	}
}
