package jet

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/nats-io/nats.go/jetstream"
)

// What a client can see of a server is how many servers keep a copy, and how many of
// these are up to date. Whether a server syncs what it stores before it answers is a
// setting of its configuration (jetstream.sync_interval), which only its operators and
// its monitoring port tell.

// unseen says what of the durability depends on the configuration of the servers.
const unseen = "whether that is on disk by then is set there (jetstream.sync_interval: always) and cannot be seen from here: without it "

// durability says what a confirm of a server elsewhere means.
func durability(i *jetstream.StreamInfo, url string) string {
	n := i.Config.Replicas
	if n <= 1 {
		return "the server at " + url + " has a message before it is confirmed; " + unseen + "a loss of power takes what was confirmed within the last two minutes"
	}
	text := fmt.Sprintf("%d of %d servers have a message before it is confirmed; ", n/2+1, n) + unseen +
		fmt.Sprintf("what was just confirmed is lost when %d of them lose power at the same moment", n/2+1)
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

// errFewer says that fewer copies are asked for than there are.
var errFewer = errors.New("fewer copies are asked for than there are")

// keepsCopies returns errFewer when a stream that is there has more replicas than c asks
// for: another node has asked for them, and jobs would lie on fewer servers from then on.
func (e *Engine) keepsCopies(ctx context.Context, c jetstream.StreamConfig) error {
	stream, err := e.js.Stream(ctx, c.Name)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	if there := stream.CachedInfo().Config.Replicas; there > c.Replicas {
		return fmt.Errorf("%w: each job lies on %d servers, and this node asks for %d: ask for %d (replicas), or lower the number for all by the tools of NATS first", errFewer, there, c.Replicas, there)
	}
	return nil
}

// lacking says what of the asked a server does not keep, empty when it keeps all. An
// older one takes a configuration that it does not understand, and leaves it out.
func lacking(asked, kept jetstream.StreamConfig) string {
	var lacks []string
	for _, f := range []struct {
		name string
		ok   bool
	}{
		{fmt.Sprintf("%d replicas", asked.Replicas), kept.Replicas >= asked.Replicas},
		{"storage in files", kept.Storage == asked.Storage},
		{"a sync before the confirm (its persist_mode is async)", kept.PersistMode == asked.PersistMode},
		{"times for messages", kept.AllowMsgSchedules == asked.AllowMsgSchedules},
		{"a time to live for messages", kept.AllowMsgTTL == asked.AllowMsgTTL},
		{"direct reads", kept.AllowDirect == asked.AllowDirect},
	} {
		if !f.ok {
			lacks = append(lacks, f.name)
		}
	}
	return strings.Join(lacks, ", ")
}
