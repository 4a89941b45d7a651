package pool_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// articleNames are the names of the source articles that docs/articles.md has to
// explain, by section.
var articleNames = map[string][]string{
	"Task states": prefixed("TASK_STATE_", "NEW", "IN_PROCESS", "DONE_SUCCESS", "RECOVER_ERR", "TERMINATED_STOP_SIGNAL",
		"TERMINATED_CTX_CLOSED", "TERMINATED_TIMEOUT", "POOL_GET", "POOL_PUT", "READY"),
	"Worker states": prefixed("WORKER_STATE_", "NEW", "WORKING", "IDLE", "TERMINATING_PARENT_CTX_CLOSED",
		"TERMINATING_STOP_SIGNAL", "TERMINATING_TASK_CH_CLOSED", "TERMINATED", "RECOVER_ERR"),
	"Pool states": prefixed("POOL_STATE_", "NEW", "ONLINE_RUNNING", "ONLINE_DONE", "INCOMPLETE_DONE", "RECOVER_ERR",
		"BG_RUNNING", "SHUTTING_DOWN", "TERMINATE_TIMEOUT", "SHUTDOWN"),
	"Ways to end": {"Light", "Soft", "Soft + timeout", "Hard", "Crash", "Stop"},
	"Run modes":   {"online", "background", "short task", "long task", "timeout == 0"},
	"Methods and fields": {
		"AddTask", "RunTasksGroupWG", "RunTasksGroupCh", "GetState", "parentCtx", "ctx", "cancel", "externalId", "id", "name",
		"doneCh", "wg", "stopCh", "localDoneCh", "state", "prevState", "timer", "requests", "responses", "err", "duration",
		"countGet", "countPut", "countNew",
	},
	"Error codes": append(prefixed("WORKER_POOL_", "TIMEOUT_ERROR", "WORKER_ERROR", "TASK_COUNT_ERROR", "IS_SHUTTING_DOWN",
		"TASK_CHANNEL_CLOSED", "ADD_TASK_INCORRECT_STATE", "RUN_INCORRECT_STATE", "TASK_INCORRECT_STATE", "INCOMPLETE_DONE",
		"CONTEXT_CLOSED", "STOP_SIGNAL", "TASK_ALREADY_LOCKED", "ALREADY_LOCKED"), "PANIC_RECOVER_ERROR", "INCORRECT_CALL_ERROR"),
	"Metrics": prefixed("wp_", "worker_process_count_vec", "task_queue_buffer_len_vec", "add_task_wait_count_vec",
		"task_process_duration_ms_by_name"),
	"Settings": {
		"concurrency", "queue", "POOL_MAX_TIMEOUT", "total_timeout", "shutdown_timeout", "task_timeout", "worker_timeout",
		"worker_concurrency",
	},
	"Process pool (2020)": {
		"processMin", "processMax", "processIdleTimeoutMilliseconds", "worker file name", "queue bound", "HelloWorkerBase",
		"QueueTask", "HelloTaskResult", "ReturnValue", "Wait", "Stop", "TryIncreaseProcess", "ShouldDecreaseProcess",
		"Started", "Keep alive", "Stopped", "VALUE", "BLOB", "BASE64", "BINARY", "BelowNormal", "CPU affinity", "AppDomain",
	},
	"Post-thread (2019)": {
		"ThreadPool", "ReadWait", "ContinueWith", "GetAwaiter", "timers", "batch", "SocketAsyncEventArgs",
	},
	"Async everything (Java)": {
		"sync", "async", "wrap", "supplyAsync", "thenCompose", "CompletableFuture", "common pool", "bulkhead", "10 DB connections",
	},
	"PowerShell worker, PR 123 (2019)": {
		"PowerShellManager", "PSWorkerInProcConcurrencyUpperBound", "CheckoutIdleWorker", "RequestId", "InvocationId",
		"AveGetReqTime", "AveInvTime", "AveFetchFromPoolTime", "AveReturnToPoolTime", "AveWriteResponseTime",
		"Request", "InvRequest", "InvDone", "runspace", "function metadata",
	},
}

func prefixed(prefix string, names ...string) []string {
	for i := range names {
		names[i] = prefix + names[i]
	}
	return names
}

// row is a line of a table.
type row struct{ name, ours, remark string }

// tables reads the tables of a page, by the heading above.
func tables(t *testing.T, file string) map[string][]row {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	found, heading := map[string][]row{}, ""
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		if title := strings.TrimLeft(line, "#"); title != line {
			heading = strings.TrimSpace(title)
		}
		if !strings.HasPrefix(line, "|") || strings.HasPrefix(line, "|---") || line == "| name | ours | remark |" {
			continue
		}
		cells := strings.Split(strings.Trim(line, "|"), "|")
		if len(cells) != 3 {
			t.Errorf("%s: %q has %d cells, want name, ours and remark", heading, line, len(cells))
			continue
		}
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		found[heading] = append(found[heading], row{cells[0], cells[1], cells[2]})
	}
	return found
}

var codeSpan = regexp.MustCompile("`([^`]+)`")

func spans(text string) (all []string) {
	for _, m := range codeSpan.FindAllStringSubmatch(text, -1) {
		all = append(all, m[1])
	}
	return all
}

// TestArticlesPage keeps docs/articles.md whole: every name of the articles is
// there, once, and what it says of ours exists.
func TestArticlesPage(t *testing.T) {
	t.Parallel()
	found := tables(t, filepath.Join("..", "docs", "articles.md"))
	known := exported(t)
	for section, names := range articleNames {
		var there []string
		for _, r := range found[section] {
			for name := range strings.SplitSeq(strings.ReplaceAll(r.name, "`", ""), ", ") {
				there = append(there, name)
			}
		}
		for _, name := range names {
			if n := count(there, name); n != 1 {
				t.Errorf("%s: %q has %d rows, want 1", section, name, n)
			}
		}
	}
	for section, rows := range found {
		if articleNames[section] == nil {
			t.Errorf("the test knows no names for the section %q", section)
		}
		for _, r := range rows {
			names := spans(r.ours)
			if len(names) == 0 && r.ours != "none" {
				t.Errorf("%s: %s: ours is %q: name it in code letters, or say none", section, r.name, r.ours)
			}
			if r.ours == "none" && r.remark == "" {
				t.Errorf("%s: %s: say why there is none", section, r.name)
			}
			for _, name := range append(names, spans(r.remark)...) {
				if !known[name] {
					t.Errorf("%s: %s: there is no %s", section, r.name, name)
				}
			}
		}
	}
}

func count(names []string, name string) (n int) {
	for _, other := range names {
		if other == name {
			n++
		}
	}
	return n
}

// documented are the packages whose names the page may use, by their folder.
var documented = map[string]string{
	"bullpen": "..", "pool": ".", "process": "../process", "poolprom": "poolprom", "poolhttp": "poolhttp",
}

// exported reads what the packages export: pkg.Name, pkg.Type.Method,
// pkg.Type.Field, and the metrics that poolprom describes.
func exported(t *testing.T) map[string]bool {
	t.Helper()
	known := map[string]bool{"pool": true, "process": true, "bullpen": true, "pool/poolprom": true, "pool/poolhttp": true, "task": true}
	for name, folder := range documented {
		files, err := filepath.Glob(filepath.Join(folder, "*.go"))
		if err != nil {
			t.Fatal(err)
		}
		files = slices.DeleteFunc(files, func(f string) bool { return strings.HasSuffix(f, "_test.go") })
		if len(files) == 0 {
			t.Errorf("package %s is not in %s", name, folder)
		}
		for _, f := range files {
			file, err := parser.ParseFile(token.NewFileSet(), f, nil, parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			for _, d := range file.Decls {
				for _, n := range declared(d) {
					known[name+"."+n] = true
				}
			}
			ast.Inspect(file, func(n ast.Node) bool {
				if metric := described(n); metric != "" {
					known[metric] = true
				}
				return true
			})
		}
	}
	return known
}

// declared gives the exported names of a declaration.
func declared(d ast.Decl) (names []string) {
	add := func(format string, args ...any) { names = append(names, fmt.Sprintf(format, args...)) }
	switch d := d.(type) {
	case *ast.FuncDecl:
		switch {
		case !d.Name.IsExported():
		case d.Recv == nil:
			add("%s", d.Name.Name)
		default:
			add("%s.%s", receiver(d.Recv.List[0].Type), d.Name.Name)
		}
	case *ast.GenDecl:
		for _, s := range d.Specs {
			switch s := s.(type) {
			case *ast.ValueSpec:
				for _, n := range s.Names {
					if n.IsExported() {
						add("%s", n.Name)
					}
				}
			case *ast.TypeSpec:
				if !s.Name.IsExported() {
					continue
				}
				add("%s", s.Name.Name)
				for _, n := range members(s.Type) {
					add("%s.%s", s.Name.Name, n)
				}
			}
		}
	}
	return names
}

// members gives the exported fields of a struct or methods of an interface.
func members(x ast.Expr) (names []string) {
	var list *ast.FieldList
	switch x := x.(type) {
	case *ast.StructType:
		list = x.Fields
	case *ast.InterfaceType:
		list = x.Methods
	default:
		return nil
	}
	for _, f := range list.List {
		for _, n := range f.Names {
			if n.IsExported() {
				names = append(names, n.Name)
			}
		}
	}
	return names
}

// receiver gives the name of the type of a method's receiver.
func receiver(x ast.Expr) string {
	switch x := x.(type) {
	case *ast.StarExpr:
		return receiver(x.X)
	case *ast.IndexExpr:
		return receiver(x.X)
	case *ast.IndexListExpr:
		return receiver(x.X)
	case *ast.Ident:
		return x.Name
	}
	return ""
}

// described gives the metric of a call of poolprom's describe.
func described(n ast.Node) string {
	call, ok := n.(*ast.CallExpr)
	if !ok || len(call.Args) == 0 {
		return ""
	}
	fn, ok := call.Fun.(*ast.Ident)
	if !ok || fn.Name != "describe" {
		return ""
	}
	name, ok := call.Args[0].(*ast.BasicLit)
	if !ok {
		return ""
	}
	return "bullpen_pool_" + strings.Trim(name.Value, `"`)
}
