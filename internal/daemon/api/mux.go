package api

import (
	"net/http"
	"slices"
	"strings"

	"github.com/bullpen-run/bullpen/internal/daemon/access"
	"github.com/bullpen-run/bullpen/internal/daemon/problem"
)

// Mux serves routes, and all other requests as Fallback does.
func Mux(routes []access.Route) http.Handler {
	mux := http.NewServeMux()
	for _, r := range routes {
		mux.Handle(r.Method+" "+r.Pattern, r.Handler)
	}
	mux.Handle("/", Fallback(routes))
	return mux
}

// Fallback answers requests that match no route with a problem. If only the method is
// wrong, the problem lists the allowed ones. It never calls the handler of a route.
func Fallback(routes []access.Route) http.Handler {
	allowed := map[string][]string{}
	for _, r := range routes {
		allowed[r.Pattern] = append(allowed[r.Pattern], r.Method)
		if r.Method == http.MethodGet {
			allowed[r.Pattern] = append(allowed[r.Pattern], http.MethodHead)
		}
	}
	mux := http.NewServeMux()
	for pattern, methods := range allowed {
		slices.Sort(methods)
		mux.Handle(pattern, wrongMethod(strings.Join(slices.Compact(methods), ", ")))
	}
	mux.Handle("/", http.HandlerFunc(nothingHere))
	return mux
}

func wrongMethod(allow string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Allow", allow)
		problem.New(problem.Method, r.Method+" is not allowed here: use "+allow+".").Write(w)
	})
}

func nothingHere(w http.ResponseWriter, _ *http.Request) {
	problem.New(problem.NotFound, "There is nothing at this path: see docs/openapi.yaml for the paths.").Write(w)
}
