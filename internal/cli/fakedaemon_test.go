package cli

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// fakeDaemon speaks the API of a daemon as far as the commands need it, with
// workers that do at once what the payload says:
//
//	fail TEXT   ends dead
//	hold        runs until it is canceled or let go
//	bytes       gives bytes that are no text
//	evil        gives, and logs, what plays with a terminal
//	else        gives the payload in upper case
type fakeDaemon struct {
	token string // wanted of everybody; empty is none
	began time.Time

	mu      sync.Mutex
	jobs    []*fakeJob                // guarded by mu
	keys    map[string]string         // ids by key; guarded by mu
	pools   map[string]map[string]any // guarded by mu
	changed *sync.Cond                // of jobs
}

type fakeJob struct {
	info    map[string]any
	payload string
	result  string
}

func newFakeDaemon() *fakeDaemon {
	d := &fakeDaemon{began: time.Now(), keys: map[string]string{}, pools: map[string]map[string]any{}}
	d.changed = sync.NewCond(&d.mu)
	for _, name := range []string{"mails", "thumbnails"} {
		d.pools[name] = map[string]any{
			"name": name, "state": "open", "protocol": "frames", "program": "python3", "ephemeral": name == "mails",
			"min": 1, "max": 4, "workers": map[string]int{"busy": 1, "idle": 1},
			"jobs":     []map[string]any{{"priority": "normal", "waiting": 3, "taken": 1, "oldest": d.began.Add(-3 * time.Minute)}},
			"outcomes": map[string]int{"ok": 12000, "failed": 3, "crashed": 1}, "deaths": map[string]int{"signal": 1},
			"wait_p50": 0.0002, "wait_p99": 0.01, "run_p50": 0.05, "run_p99": 1.5, "started": 3, "stopped": 1, "accepted": 12004,
		}
	}
	return d
}

func (d *fakeDaemon) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/pools/{pool}/jobs", d.submit)
	mux.HandleFunc("POST /v1/pools/{pool}/bulk", d.bulk)
	mux.HandleFunc("POST /v1/pools/{pool}/run", d.run)
	mux.HandleFunc("GET /v1/jobs/{id}", d.get)
	mux.HandleFunc("GET /v1/jobs/{id}/{part}", d.part)
	mux.HandleFunc("POST /v1/jobs/{id}/{verb}", d.verb)
	mux.HandleFunc("GET /v1/jobs", d.list)
	mux.HandleFunc("GET /v1/pools", d.listPools)
	mux.HandleFunc("GET /v1/pools/{pool}", func(w http.ResponseWriter, r *http.Request) { d.pool(w, r, nil) })
	mux.HandleFunc("POST /v1/pools/{pool}/{verb}", d.poolVerb)
	mux.HandleFunc("GET /v1/dead", d.list)
	mux.HandleFunc("POST /v1/jobs/cancel", d.cancelMany)
	mux.HandleFunc("GET /v1/dead/causes", d.causes)
	mux.HandleFunc("GET /v1/dead/{id}", d.get)
	mux.HandleFunc("POST /v1/dead/{id}/{verb}", d.verb)
	mux.HandleFunc("DELETE /v1/dead/{id}", d.verb)
	mux.HandleFunc("POST /v1/dead/{verb}", d.sweep)
	mux.HandleFunc("GET /v1/status", func(w http.ResponseWriter, _ *http.Request) {
		answer(w, http.StatusOK, map[string]any{
			"version": "v1.2.3", "node": "node-1", "uptime": 3700.5, "ready": true, "live": true, "stopping": false,
			"store": map[string]any{"kind": "embedded", "durability": "sync", "replicas": 1}, "log_lines_dropped": 0,
		})
	})
	mux.HandleFunc("POST /v1/reload", func(w http.ResponseWriter, _ *http.Request) {
		problemOf(w, http.StatusUnprocessableEntity, "bad-config", "bullpen.yaml has faults", map[string]any{"faults": []string{"bullpen.yaml:3: pools.x.max: use 1 or more"}})
	})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if d.token != "" && r.Header.Get("Authorization") != "Bearer "+d.token {
			problemOf(w, http.StatusUnauthorized, "unauthorized", "the token is not known", nil)
			return
		}
		mux.ServeHTTP(w, r)
	})
}

func answer(w http.ResponseWriter, code int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(v)
}

func problemOf(w http.ResponseWriter, code int, cause, detail string, more map[string]any) {
	p := map[string]any{"type": "urn:bullpen:problem:" + cause, "title": cause, "status": code, "detail": detail, "cause": cause}
	maps.Copy(p, more)
	w.Header().Set("Content-Type", "application/problem+json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(p)
}

// enqueue makes a job of a payload and does it. The caller holds mu.
func (d *fakeDaemon) enqueue(pool, task, key, payload string) (*fakeJob, bool) {
	if id := d.keys[key]; key != "" && id != "" {
		return d.find(id), true
	}
	j := &fakeJob{payload: payload, info: map[string]any{
		"id": fmt.Sprintf("01JOB%05d", len(d.jobs)+1), "pool": pool, "task": task, "state": "done", "priority": "normal", "attempts": 1,
		"enqueued": time.Now().Add(-10 * time.Minute).UTC(), "ended": time.Now().UTC(), "outcome": "ok", "ran": 0.012, "waited": 0.001,
		"worker": "w1", "node": "node-1", "payload_size": len(payload),
		"lines": []map[string]any{{"time": time.Now().UTC(), "level": 0, "stream": "stdout", "text": "looking at " + payload}},
	}}
	if key != "" {
		j.info["key"] = key
		d.keys[key] = j.info["id"].(string)
	}
	verb, rest, _ := strings.Cut(payload, " ")
	switch verb {
	case "fail":
		failure := map[string]any{"outcome": "failed", "type": "ValueError", "message": rest, "retryable": true, "worker": "w1", "detail": "Traceback\n\x1b[31mred"}
		maps.Copy(j.info, map[string]any{"state": "dead", "outcome": "failed", "reason": "exhausted", "error": rest, "attempts": 3, "failure": failure})
		j.info["history"] = []map[string]any{{"number": 3, "outcome": "failed", "ended": time.Now().UTC(), "ran": 0.5, "worker": "w1", "error": rest}}
	case "hold":
		j.info["state"] = "running"
		delete(j.info, "outcome")
		delete(j.info, "ended")
	case "bytes":
		j.result = "\x00\xff\x1b[2J"
	case "evil":
		j.result = "\x1b]0;evil\x07"
		j.info["note"] = "\x1b[2Jnote"
	default:
		j.result = strings.ToUpper(payload)
	}
	d.jobs = append(d.jobs, j)
	return j, false
}

func (d *fakeDaemon) find(id string) *fakeJob {
	for _, j := range d.jobs {
		if j.info["id"] == id {
			return j
		}
	}
	return nil
}

func (d *fakeDaemon) known(w http.ResponseWriter, pool string) bool {
	if d.pools[pool] == nil {
		problemOf(w, http.StatusNotFound, "unknown-pool", "there is no pool "+pool, nil)
		return false
	}
	return true
}

func (d *fakeDaemon) submit(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.known(w, r.PathValue("pool")) {
		return
	}
	key := r.URL.Query().Get("key")
	if key == "" {
		key = r.Header.Get("Idempotency-Key")
	}
	j, existing := d.enqueue(r.PathValue("pool"), r.URL.Query().Get("task"), key, string(body))
	answer(w, http.StatusAccepted, map[string]any{"id": j.info["id"], "pool": j.info["pool"], "state": j.info["state"], "existing": existing})
}

func (d *fakeDaemon) bulk(w http.ResponseWriter, r *http.Request) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.known(w, r.PathValue("pool")) {
		return
	}
	lines, out := json.NewDecoder(r.Body), json.NewEncoder(w)
	for {
		var line struct{ Task, Payload, Key string }
		if lines.Decode(&line) != nil {
			return
		}
		if line.Payload == "storeless" {
			_ = out.Encode(map[string]any{"error": map[string]any{"status": 503, "cause": "store", "detail": "no quorum"}})
			continue
		}
		if line.Payload == "refuse" {
			_ = out.Encode(map[string]any{"error": map[string]any{"status": 400, "cause": "bad-request", "detail": "line 1: not this"}})
			continue
		}
		j, existing := d.enqueue(r.PathValue("pool"), line.Task, line.Key, line.Payload)
		_ = out.Encode(map[string]any{"id": j.info["id"], "state": j.info["state"], "existing": existing})
	}
}

func (d *fakeDaemon) run(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	switch text := string(body); {
	case r.PathValue("pool") != "mails":
		problemOf(w, http.StatusForbidden, "forbidden", "the pool takes durable jobs only; set ephemeral: true in its configuration", nil)
	case strings.HasPrefix(text, "fail "):
		problemOf(w, http.StatusUnprocessableEntity, "ended-badly", "the task failed", map[string]any{
			"outcome": "failed", "failure": map[string]any{"outcome": "failed", "type": "ValueError", "message": text[5:]},
		})
	case text == "hold":
		<-r.Context().Done()
	default:
		w.Header().Set("Bullpen-Outcome", "ok")
		w.Header().Set("Bullpen-Worker", "w1")
		_, _ = io.WriteString(w, strings.ToUpper(text))
	}
}

// job finds the job of a request and waits for its end as far as that is asked
// for. The caller holds mu.
func (d *fakeDaemon) job(w http.ResponseWriter, r *http.Request) *fakeJob {
	j := d.find(r.PathValue("id"))
	if j == nil {
		problemOf(w, http.StatusNotFound, "not-found", "no such job", nil)
		return nil
	}
	if wait, _ := time.ParseDuration(r.URL.Query().Get("wait")); wait > 0 {
		over := false
		set := func() {
			d.mu.Lock()
			defer d.mu.Unlock()
			over = true
			d.changed.Broadcast()
		}
		defer time.AfterFunc(wait, set).Stop()
		go func() { // ends with the request
			<-r.Context().Done()
			set()
		}()
		for !over && j.info["state"] == "running" {
			d.changed.Wait()
		}
	}
	return j
}

func (d *fakeDaemon) get(w http.ResponseWriter, r *http.Request) {
	d.mu.Lock()
	defer d.mu.Unlock()
	j := d.job(w, r)
	if j == nil {
		return
	}
	if strings.HasPrefix(r.URL.Path, "/v1/dead/") {
		j.info["payload_base64"] = base64.StdEncoding.EncodeToString([]byte(j.payload))
	}
	answer(w, http.StatusOK, j.info)
}

func (d *fakeDaemon) part(w http.ResponseWriter, r *http.Request) {
	d.mu.Lock()
	defer d.mu.Unlock()
	j := d.job(w, r)
	switch part := r.PathValue("part"); {
	case j == nil:
	case part == "payload":
		_, _ = io.WriteString(w, j.payload)
	case part == "events":
		d.events(w, r, j)
	case j.info["state"] == "running":
		answer(w, http.StatusAccepted, j.info)
	case j.info["state"] != "done":
		problemOf(w, http.StatusUnprocessableEntity, "ended-badly", "the job ended badly", map[string]any{
			"outcome": j.info["outcome"], "reason": j.info["reason"], "job": j.info["id"], "attempts": j.info["attempts"], "failure": j.info["failure"],
		})
	default:
		w.Header().Set("Bullpen-Job", j.info["id"].(string))
		w.Header().Set("Bullpen-Outcome", "ok")
		_, _ = io.WriteString(w, j.result)
	}
}

func (d *fakeDaemon) events(w http.ResponseWriter, r *http.Request, j *fakeJob) {
	w.Header().Set("Content-Type", "text/event-stream")
	n := 0
	send := func(kind string, v any) {
		text, _ := json.Marshal(v)
		n++
		fmt.Fprintf(w, "id: 1.%d\nevent: %s\ndata: %s\n\n", n, kind, text)
	}
	send("state", map[string]any{"state": "running", "attempt": 1})
	send("progress", map[string]any{"fraction": 0.5, "note": "half"})
	send("log", map[string]any{"time": time.Now().UTC(), "level": 0, "stream": "stdout", "text": "looking at " + j.payload + "\x1b[2J"})
	send("log", map[string]any{"time": time.Now().UTC(), "level": 4, "stream": "log", "text": "careful"})
	w.(http.Flusher).Flush()
	go func() { // ends with the request
		<-r.Context().Done()
		d.changed.Broadcast()
	}()
	for j.info["state"] == "running" && r.Context().Err() == nil {
		d.changed.Wait()
	}
	if r.Context().Err() == nil {
		send("end", j.info)
	}
}

func (d *fakeDaemon) verb(w http.ResponseWriter, r *http.Request) {
	d.mu.Lock()
	defer d.mu.Unlock()
	j := d.job(w, r)
	switch verb := r.PathValue("verb"); {
	case j == nil:
	case r.Method == http.MethodDelete:
		d.jobs = slices.DeleteFunc(d.jobs, func(o *fakeJob) bool { return o == j })
		w.WriteHeader(http.StatusNoContent)
	case verb == "cancel" && j.info["state"] != "running":
		problemOf(w, http.StatusConflict, "ended", "the job has ended: it is "+j.info["state"].(string), nil)
	case verb == "cancel":
		j.info["state"], j.info["outcome"], j.info["reason"] = "canceled", "canceled", "canceled"
		d.changed.Broadcast()
		answer(w, http.StatusOK, j.info)
	case verb == "retry" && j.info["state"] != "dead":
		problemOf(w, http.StatusConflict, "not-dead", "the job is "+j.info["state"].(string), nil)
	default:
		again, _ := d.enqueue(j.info["pool"].(string), "", "", "again "+j.payload)
		answer(w, http.StatusAccepted, map[string]any{"id": again.info["id"], "pool": again.info["pool"], "state": "queued"})
	}
}

// chosen are the jobs that a request selects. The caller holds mu.
func (d *fakeDaemon) chosen(pool, state, reason string) (all []map[string]any) {
	for _, j := range d.jobs {
		if (pool == "" || j.info["pool"] == pool) && (state == "" || slices.Contains(strings.Split(state, ","), j.info["state"].(string))) && (reason == "" || j.info["reason"] == reason) {
			all = append(all, j.info)
		}
	}
	return all
}

func (d *fakeDaemon) list(w http.ResponseWriter, r *http.Request) {
	d.mu.Lock()
	defer d.mu.Unlock()
	q := r.URL.Query()
	state := q.Get("state")
	if r.URL.Path == "/v1/dead" {
		state = "dead"
	}
	all := d.chosen(q.Get("pool"), state, q.Get("reason"))
	from, _ := strconv.Atoi(q.Get("after"))
	limit, err := strconv.Atoi(q.Get("limit"))
	if err != nil {
		limit = 100
	}
	page := map[string]any{"jobs": all[min(from, len(all)):min(from+limit, len(all))]}
	if from+limit < len(all) {
		page["next"] = strconv.Itoa(from + limit)
	}
	answer(w, http.StatusOK, page)
}
