package client_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/bullpen-run/bullpen"
	"github.com/bullpen-run/bullpen/client"
)

// pieces is an observer that takes a result in pieces.
type pieces struct{ got []string }

func (*pieces) Progress(float64, string) {}
func (*pieces) Log(bullpen.LogLine)      {}
func (p *pieces) Chunk(piece []byte)     { p.got = append(p.got, string(piece)) }

// TestChunks: an observer that takes pieces gets them, and the result has the rest.
func TestChunks(t *testing.T) {
	t.Parallel()
	asked := make(chan string, 1)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked <- r.URL.RawQuery
		w.Header().Set("Content-Type", "text/event-stream")
		fmt.Fprint(w, "event: chunk\ndata: {\"payload_base64\":\"YQ==\"}\n\nevent: chunk\ndata: {\"payload_base64\":\"YmM=\"}\n\n"+
			"event: result\ndata: {\"payload_base64\":\"\",\"meta\":{\"content-type\":\"text/plain\"},\"stats\":{}}\n\n")
	}))
	defer server.Close()
	got := &pieces{}
	r, err := connect(t, client.Config{URL: server.URL}).RunEphemeral(t.Context(), "p", bullpen.Task{Observer: got})
	if err != nil || strings.Join(got.got, "|") != "a|bc" || len(r.Payload) != 0 || r.Meta["content-type"] != "text/plain" {
		t.Errorf("%q, %+v, %v", got.got, r, err)
	}
	if query := <-asked; !strings.Contains(query, "chunks=true") {
		t.Errorf("it asked for %s", query)
	}
}
