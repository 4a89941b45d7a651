package cli

import (
	"encoding/json"
	"maps"
	"net/http"
)

func (d *fakeDaemon) listPools(w http.ResponseWriter, _ *http.Request) {
	d.mu.Lock()
	defer d.mu.Unlock()
	answer(w, http.StatusOK, map[string]any{"pools": []any{d.pools["mails"], d.pools["thumbnails"]}})
}

func (d *fakeDaemon) pool(w http.ResponseWriter, r *http.Request, change map[string]any) {
	d.mu.Lock()
	defer d.mu.Unlock()
	name := r.PathValue("pool")
	if !d.known(w, name) {
		return
	}
	maps.Copy(d.pools[name], change)
	answer(w, http.StatusOK, d.pools[name])
}

func (d *fakeDaemon) poolVerb(w http.ResponseWriter, r *http.Request) {
	switch verb := r.PathValue("verb"); verb {
	case "pause", "resume":
		d.pool(w, r, map[string]any{"paused": verb == "pause"})
	case "reload":
		problemOf(w, http.StatusServiceUnavailable, "start-failed", "the new workers do not start: exit status 1: no module named thumbs", nil)
	case "scale":
		change := map[string]any{}
		_ = json.NewDecoder(r.Body).Decode(&change)
		d.pool(w, r, change)
	}
}

func (d *fakeDaemon) sweep(w http.ResponseWriter, r *http.Request) {
	var f struct {
		Pool, Reason string
		Limit        int
	}
	_ = json.NewDecoder(r.Body).Decode(&f)
	d.mu.Lock()
	defer d.mu.Unlock()
	all := d.chosen(f.Pool, "dead", f.Reason)
	more := false
	if most := 2; len(all) > most { // small parts, so that there are several
		all, more = all[:most], true
	}
	for _, info := range all {
		info["state"] = "gone"
	}
	answer(w, http.StatusOK, map[string]any{"count": len(all), "failed": []any{}, "more": more})
}

func (d *fakeDaemon) cancelMany(w http.ResponseWriter, r *http.Request) {
	var f struct{ Pool, State string }
	_ = json.NewDecoder(r.Body).Decode(&f)
	d.mu.Lock()
	defer d.mu.Unlock()
	all := d.chosen(f.Pool, f.State, "")
	for _, info := range all {
		info["state"] = "canceled"
	}
	answer(w, http.StatusOK, map[string]any{"count": len(all), "failed": []any{map[string]any{"id": "01X", "error": "it hangs"}}})
}

func (d *fakeDaemon) causes(w http.ResponseWriter, r *http.Request) {
	d.mu.Lock()
	defer d.mu.Unlock()
	all := d.chosen(r.URL.Query().Get("pool"), "dead", "")
	causes := []any{}
	if len(all) > 0 {
		causes = append(causes, map[string]any{
			"cause": "89af7e51c13b", "pool": all[0]["pool"], "reason": "exhausted", "outcome": "failed", "error": "row # \x1b[2J", "count": len(all), "sample": all[0]["id"],
		})
	}
	answer(w, http.StatusOK, map[string]any{"causes": causes, "jobs": len(all), "more": r.URL.Query().Get("search") == "much"})
}
