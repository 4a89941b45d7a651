package api

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/url"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/bullpen-run/bullpen"
	"github.com/bullpen-run/bullpen/internal/daemon/problem"
	"github.com/bullpen-run/bullpen/internal/jsonvalue"
)

// elsewhere are operations that the daemon serves beside this package.
var elsewhere = []string{"get /livez", "get /readyz", "get /metrics"}

func TestOperationsAreDocumented(t *testing.T) {
	t.Parallel()
	d := openAPI(t)
	a, _ := newAPI(t)
	left := map[string]bool{}
	ids := map[any]bool{}
	for path, item := range d.paths() {
		for method := range object(item) {
			left[method+" "+path] = true
		}
	}
	for _, r := range a.routes() {
		name := strings.ToLower(r.Method) + " " + r.Pattern
		if !left[name] {
			t.Errorf("%s is not documented", name)
			continue
		}
		delete(left, name)
		op := object(d.at(d.root, "paths", r.Pattern, strings.ToLower(r.Method)))
		if op["x-role"] != r.Role.String() {
			t.Errorf("%s: the role is %v, not %v", name, op["x-role"], r.Role)
		}
		if ids[op["operationId"]] || op["summary"] == nil {
			t.Errorf("%s has no summary, or the id of another: %v", name, op["operationId"])
		}
		ids[op["operationId"]] = true
		var queries []string
		for p := range d.parameters(op) {
			if in, name, _ := strings.Cut(p, " "); in == "query" {
				queries = append(queries, name)
			}
		}
		want := slices.Sorted(slices.Values(r.query))
		if slices.Sort(queries); !slices.Equal(queries, want) {
			t.Errorf("%s: the query has %v, documented are %v", name, want, queries)
		}
	}
	for _, name := range elsewhere {
		delete(left, name)
	}
	if len(left) > 0 {
		t.Errorf("documented is what is not there: %v", left)
	}
}

// schemas are the structs that answers are made of.
var schemas = map[string]any{
	"Ref": Ref{}, "Job": Job{}, "Attempt": Attempt{}, "Line": Line{}, "State": State{}, "Progress": Progress{},
	"RunResult": RunResult{}, "RunStats": RunStats{}, "Page": listPage{}, "Pools": Pools{}, "Pool": PoolInfo{}, "Workers": Workers{}, "Depth": Depth{}, "Groups": groupsAnswer{}, "Group": Group{}, "GroupLimits": GroupLimits{},
	"Many": Many{}, "NotOne": NotOne{}, "Kept": Kept{}, "Causes": Causes{}, "Cause": Cause{}, "Changed": Changed{}, "Status": StatusInfo{}, "Store": StoreInfo{}, "Usage": Usage{}, "Sync": SyncInfo{},
	"Schedule": Schedule{}, "Schedules": schedulesAnswer{}, "ScheduleJob": ScheduleJob{},
	"Batch": Batch{}, "Batches": batchPage{}, "JobLine": JobLine{}, "QueueStats": QueueInfo{}, "Problem": problem.Problem{}, "Failure": jsonvalue.Failure{},
	"Overview": OverviewInfo{}, "PoolNow": NowInfo{}, "History": HistoryInfo{}, "Series": SeriesInfo{}, "WorkerList": WorkersInfo{}, "Worker": WorkerInfo{}, "Me": Me{},
}

func TestFieldsAreDocumented(t *testing.T) {
	t.Parallel()
	d := openAPI(t)
	for name, v := range schemas {
		schema := object(d.at(d.root, "components", "schemas", name))
		if schema == nil {
			t.Errorf("there is no schema %s", name)
			continue
		}
		var fields, always []string
		for f := range reflect.TypeOf(v).Fields() {
			tag, options, _ := strings.Cut(f.Tag.Get("json"), ",")
			if tag == "-" {
				continue
			}
			fields = append(fields, tag)
			if options == "" || name == "Ref" && tag == "pool" {
				always = append(always, tag)
			}
		}
		slices.Sort(fields)
		slices.Sort(always)
		if got := slices.Sorted(maps.Keys(object(schema["properties"]))); !slices.Equal(got, fields) {
			t.Errorf("%s has %v, documented are %v", name, fields, got)
		}
		var required []string
		list, _ := schema["required"].([]any)
		for _, r := range list {
			required = append(required, fmt.Sprint(r))
		}
		if slices.Sort(required); !slices.Equal(required, always) {
			t.Errorf("%s always has %v, documented are %v", name, always, required)
		}
		if example := schema["example"]; example != nil {
			b, err := json.Marshal(example)
			if err != nil {
				t.Fatal(err)
			}
			var v any
			if err := json.Unmarshal(b, &v); err != nil {
				t.Fatal(err)
			}
			for _, fault := range d.validate(name, schema, v) {
				t.Errorf("the example of %s", fault)
			}
		}
	}
}

// TestBodiesAreDocumented compares the fields that bodies may have with those of the
// document.
func TestBodiesAreDocumented(t *testing.T) {
	t.Parallel()
	d := openAPI(t)
	for name, fields := range map[string][]string{
		"BulkLine": lineFields, "Member": memberFields, "LinkLine": linkFields, "Filter": manyDead, "CancelMany": manyCancel, "RetryMany": manyRetry, "PutSchedule": scheduleFields,
	} {
		got := slices.Sorted(maps.Keys(object(d.at(d.root, "components", "schemas", name, "properties"))))
		if want := slices.Sorted(slices.Values(fields)); !slices.Equal(got, want) {
			t.Errorf("%s has %v, documented are %v", name, want, got)
		}
	}
}

func TestCausesAreDocumented(t *testing.T) {
	t.Parallel()
	d := openAPI(t)
	statuses := object(d.at(d.root, "components", "schemas", "Problem", "x-statuses"))
	words, _ := d.at(d.root, "components", "schemas", "Problem", "properties", "cause", "enum").([]any)
	all := problem.Causes()
	if len(statuses) != len(all) || len(words) != len(all) {
		t.Errorf("there are %d causes, documented are %d with %d statuses", len(all), len(words), len(statuses))
	}
	for _, c := range all {
		if statuses[string(c)] != c.Status() || !slices.Contains(words, any(string(c))) {
			t.Errorf("%s is %d, documented is %v", c, c.Status(), statuses[string(c)])
		}
	}
	outcomes, _ := d.at(d.root, "components", "schemas", "Outcome", "enum").([]any)
	for i, o := range bullpen.Outcomes() {
		if len(outcomes) != bullpen.OutcomeCount || outcomes[i] != o.String() {
			t.Errorf("the outcomes are %v, documented are %v", bullpen.Outcomes(), outcomes)
		}
	}
	dead, _ := d.at(d.root, "components", "schemas", "FilterReason", "enum").([]any)
	for _, r := range reasons {
		if !slices.Contains(dead, any(r)) || len(dead) != len(reasons) {
			t.Errorf("the reasons are %v, documented are %v", reasons, dead)
		}
	}
}

// accepts reports whether the schema of a parameter takes a text.
func accepts(d *document, schema any, text string) bool {
	s := object(d.follow(schema))
	switch s["type"] {
	case "boolean":
		return text == "true" || text == "false"
	case "integer", "number":
		n, err := strconv.ParseFloat(text, 64)
		if s["type"] == "integer" && strings.Trim(text, "0123456789") != "" {
			return false
		}
		return err == nil && json.Valid([]byte(text)) && acceptsNumber(s, n)
	}
	if enum, ok := s["enum"].([]any); ok {
		return slices.Contains(enum, any(text))
	}
	return acceptsText(s, text)
}

// FuzzParameters holds what the parameters of orders take against what is
// documented of them.
func FuzzParameters(f *testing.F) {
	for _, v := range []string{
		"", "0", "1", "-1", "+1", "01", "65536", "65537", "1.5", "1e3", "0x1", "NaN", "Inf", "true", "false", "yes", "high", "30s", "1h30m", "1.5h", ".5s", "1.s",
		"99999h", "100000h", "1µs", "1us1ns", "1h1h1h1h1h1h", "1h1h1h1h1h1h1h", "999999999999999", "1000000000000000", "512MiB", "1.5GiB", "999999TB", "1000000TB", "1 GB",
		"a-b_C9", "a.b", nobody, strings.ToLower(nobody), nobody + "0", "run-" + nobody, strings.Repeat("x", 64), strings.Repeat("x", 65), strings.Repeat("x", 256), strings.Repeat("x", 257), "2030-01-01T00:00:00Z", "\xff",
	} {
		f.Add(v)
	}
	d, err := readDocument()
	if err != nil {
		f.Fatal(err)
	}
	known := d.parameters(object(d.at(d.root, "paths", "/v1/pools/{pool}/jobs", "post")))
	maps.Copy(known, d.parameters(object(d.at(d.root, "paths", "/v1/pools/{pool}/run", "post"))))
	f.Fuzz(func(t *testing.T, v string) {
		ascii := strings.IndexFunc(v, func(r rune) bool { return r > '~' }) < 0
		for i := range settings {
			s := &settings[i]
			schema := known["query "+s.name]
			if object(d.follow(schema))["maxLength"] != nil && !ascii {
				continue // bytes are counted, of what is UTF-8
			}
			var o order
			err := s.set(&o, v)
			if want := accepts(d, schema, v); want != (err == nil) {
				t.Errorf("%s=%q: the schema takes it: %v; the code says %v", s.name, v, want, err)
			}
		}
		err := checkAfter(v)
		page := d.parameters(object(d.at(d.root, "paths", "/v1/jobs", "get")))["query after"]
		if want := accepts(d, page, v); want != (err == nil) {
			t.Errorf("after=%q: the schema takes it: %v; the code says %v", v, want, err)
		}
	})
}

// FuzzMeta holds the header against what is documented of it.
func FuzzMeta(f *testing.F) {
	for _, v := range []string{"", "a=b", "a=", "=b", "a", "a=b&c=d", "a=b&", "&a=b", "a=b=c", "a=%41", "a=%4", "a=b c", "a=\u00fc", "a+b=c+d", "a;b=c"} {
		f.Add(v)
	}
	d, err := readDocument()
	if err != nil {
		f.Fatal(err)
	}
	schema := d.parameters(object(d.at(d.root, "paths", "/v1/pools/{pool}/jobs", "post")))["header Bullpen-Meta"]
	f.Fuzz(func(t *testing.T, v string) {
		var o order
		var faults faults
		o.readHeaders(map[string][]string{headerMeta: {v}}, &faults)
		o.readPrefer(map[string][]string{headerPrefer: {v}})
		if want := accepts(d, schema, v); want != (faults.problem() == nil) {
			t.Errorf("%q: the schema takes it: %v; the code says %v", v, want, faults.texts)
		}
	})
}

// FuzzLine reads lines of a bulk: what is taken is valid for the queue.
func FuzzLine(f *testing.F) {
	for _, v := range []string{
		`{}`, `{"payload":"x","meta":{"a":"b"},"delay":1.5}`, `{"payload_base64":"eA==","key":"\u00e4"}`, `[1,2]`, `{"a":{"b":[1,"}"]}}`, `{"at":"2030-01-01T00:00:00Z"} `,
		`{"memory":"1KiB","cpu":0.5,"attempts":3,"idempotent":true}`, `{"payload":"\ud800"}`, "{\"payload\":\"\x00\"}", `{"delay":1e300}`, `"{"`, `{"then" : [ {} , {"task":"]"} ]}`, `{"then":[1,"]",[]]}`, `{"task" : "a" , "task" : "b"}`,
	} {
		f.Add([]byte(v))
	}
	f.Fuzz(func(t *testing.T, line []byte) {
		o, p := readLine(line, lineFields, 1<<10, time.Now())
		if p != nil {
			if p.Detail == "" || p.Status/100 != 4 {
				t.Errorf("%q: %+v", line, p)
			}
			return
		}
		var v map[string]any
		if err := json.Unmarshal(line, &v); err != nil {
			t.Errorf("%q is taken, and is no object: %v", line, err)
		}
		if text, ok := v["payload"].(string); ok && text != string(o.job.Payload) {
			t.Errorf("%q gives the payload %q", line, o.job.Payload)
		}
		if len(o.job.Payload) > 1<<10 || o.job.Limits.Check() != nil || o.job.Delay != 0 || len(o.job.Name) > longestName || len(o.job.Key) > longestKey {
			t.Errorf("%q gives %+v", line, o.job)
		}
	})
}

// FuzzQuery reads whole queries.
func FuzzQuery(f *testing.F) {
	for _, v := range []string{"", "task=a&wait=1s", "task=%41+b", "a=b;c=d", "task=;", "task=a%3B", "task", "=", "&&", "task=a&task=b", "%zz=1", "wiat=1s"} {
		f.Add(v)
	}
	f.Fuzz(func(t *testing.T, raw string) {
		var faults faults
		q := readQuery(raw, submitParams, &faults)
		readOrder(q, &faults)
		want, err := url.ParseQuery(raw)
		if faults.problem() == nil && (err != nil || len(want) != len(q)) {
			t.Errorf("%q is %v, and to package url %v, %v", raw, q, want, err)
		}
		for i := range q {
			if !slices.Contains(submitParams, q[i].name) {
				t.Errorf("%q has %q", raw, q[i].name)
			}
			if err == nil && want.Get(q[i].name) != q[i].value {
				t.Errorf("%q: %s is %q, and to package url %q", raw, q[i].name, q[i].value, want.Get(q[i].name))
			}
		}
	})
}
