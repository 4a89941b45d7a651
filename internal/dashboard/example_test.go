package dashboard_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"

	"github.com/bullpen-run/bullpen/internal/dashboard"
)

func ExampleNew() {
	pages, err := dashboard.New()
	if err != nil {
		fmt.Println(err)
		return
	}
	w := httptest.NewRecorder()
	pages.Entry(w, httptest.NewRequest(http.MethodGet, "/", http.NoBody))
	fmt.Println(w.Code, w.Header().Get("Content-Type"))
	// Output: 200 text/html; charset=utf-8
}
