package jet

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/nats-io/nats.go/jetstream"
)

// A client can see how many servers keep a copy, and how many of the copies are up to
// date. It cannot see whether a server syncs what it stores before it answers: that is
// set in the server's configuration (jetstream.sync_interval), which only its operators
// and its monitoring port report.

// unseen says which part of the durability depends on the servers' configuration.
const unseen = "unless jetstream.sync_interval is always in the server configuration, which this program cannot check, "

// durability describes what a confirmation of an external server means.
func durability(i *jetstream.StreamInfo, url string) string {
	n := i.Config.Replicas
	if n <= 1 {
		return "the server at " + url + " has a message before it is confirmed; " + unseen + "a power failure loses what was confirmed within the last two minutes"
	}
	text := fmt.Sprintf("%d of %d servers have a message before it is confirmed; ", n/2+1, n) + unseen +
		fmt.Sprintf("the most recent confirmed messages are lost if %d of them lose power at the same moment", n/2+1)
	if c := i.Cluster; c != nil {
		var late []string
		for _, r := range c.Replicas {
			if r.Offline || !r.Current {
				late = append(late, r.Name)
			}
		}
		if len(late) > 0 {
			text += "; not up to date now: " + strings.Join(late, ", ")
		}
	}
	return text
}

// errFewer means that fewer copies are requested than exist.
var errFewer = errors.New("this node requests fewer copies than there are")

// keepsCopies returns errFewer if an existing stream has more replicas than c requests:
// another node has requested them, and jobs would lie on fewer servers from then on.
func (e *Engine) keepsCopies(ctx context.Context, c jetstream.StreamConfig) error {
	stream, err := e.js.Stream(ctx, c.Name)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	if there := stream.CachedInfo().Config.Replicas; there > c.Replicas {
		return fmt.Errorf("%w: each job has copies on %d servers, but this node requests %d: set replicas to %d, or first lower the number for all with the NATS tools", errFewer, there, c.Replicas, there)
	}
	return nil
}

// lacking describes which settings of asked the server has not applied, empty for none.
// An older server accepts a configuration that it does not understand, and ignores that
// part.
func lacking(asked, kept jetstream.StreamConfig) string {
	var lacks []string
	for _, f := range []struct {
		name string
		ok   bool
	}{
		{fmt.Sprintf("%d replicas", asked.Replicas), kept.Replicas >= asked.Replicas},
		{"storage in files", kept.Storage == asked.Storage},
		{"a sync before the confirm (its persist_mode is async)", kept.PersistMode == asked.PersistMode},
		{"scheduled messages", kept.AllowMsgSchedules == asked.AllowMsgSchedules},
		{"a time to live for messages", kept.AllowMsgTTL == asked.AllowMsgTTL},
		{"direct reads", kept.AllowDirect == asked.AllowDirect},
	} {
		if !f.ok {
			lacks = append(lacks, f.name)
		}
	}
	return strings.Join(lacks, ", ")
}
