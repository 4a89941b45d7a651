//go:build unix

package daemon

import (
	"bufio"
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// streamingApp sends a chunk, and the rest when a file exists.
const streamingApp = `
import os, time
from http.server import BaseHTTPRequestHandler, HTTPServer

class App(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def chunk(self, text):
        self.wfile.write(b"%x\r\n%s\r\n" % (len(text), text))
        self.wfile.flush()

    def do_POST(self):
        step = self.rfile.read(int(self.headers["Content-Length"])).decode().strip('"')
        self.send_response(200)
        self.send_header("Transfer-Encoding", "chunked")
        self.send_header("Ce-Id", self.headers.get("Ce-Id", "none"))
        self.end_headers()
        self.chunk(b"first")
        while not os.path.exists(step):
            time.sleep(0.001)
        self.chunk(b"second")
        self.chunk(b"")

    def log_message(self, *args):
        pass

HTTPServer(("127.0.0.1", int(os.environ["PORT"])), App).serve_forever()
`

// TestStreamedResult: pieces of a result reach the caller while the worker still runs, by the
// API and by the Lambda front.
func TestStreamedResult(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("python3"); err != nil {
		t.Skip("python3 is not installed: apt-get install python3")
	}
	folder := t.TempDir()
	for name, text := range map[string]string{
		"app.py":       streamingApp,
		"bullpen.yaml": "lambda: {listen: \"127.0.0.1:0\"}\npools: {app: {command: [python3, app.py], protocol: http, ephemeral: true}}\n",
	} {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	s := serveIn(t, folder)
	for i, of := range []struct {
		url, accept   string
		first, second string
	}{
		{s.url + "/v1/pools/app/run?chunks=true", "text/event-stream", base64.StdEncoding.EncodeToString([]byte("first")), base64.StdEncoding.EncodeToString([]byte("second"))},
		{s.lambda + "/2021-11-15/functions/app/response-streaming-invocations", "*/*", "first", "second"},
	} {
		step := filepath.Join(folder, fmt.Sprint("step", i))
		status, _, answer := post(t, of.url, `"`+step+`"`, "Accept", of.accept)
		in := bufio.NewReader(answer)
		var seen strings.Builder
		for !strings.Contains(seen.String(), of.first) {
			b, err := in.ReadByte()
			if err != nil {
				t.Fatalf("%s: %q, %v", of.url, &seen, err)
			}
			seen.WriteByte(b)
		}
		if err := os.WriteFile(step, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		rest, err := io.ReadAll(in)
		if err != nil || status != http.StatusOK || !strings.Contains(string(rest), of.second) || strings.Contains(string(rest), of.first) {
			t.Errorf("%s: %q, %v", of.url, rest, err)
		}
	}
	step := filepath.Join(folder, "step0")
	_, header, answer := post(t, s.url+"/v1/pools/app/run", step, "Ce-Id", "77", "Ce-Type", "order")
	text, err := io.ReadAll(answer)
	if err != nil || string(text) != "firstsecond" || header.Get("Bullpen-Meta") != "ce-id=77" {
		t.Errorf("without a stream: %q, %v, %v", text, header, err)
	}
	if status, _, _ := post(t, s.url+"/v1/pools/app/run?chunks=true", step); status != http.StatusBadRequest {
		t.Errorf("chunks without a stream of events: %d", status)
	}
}

// post posts a body with headers, given as names and values.
func post(t *testing.T, url, body string, header ...string) (status int, with http.Header, answer io.Reader) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = response.Body.Close() })
	return response.StatusCode, response.Header, response.Body
}
