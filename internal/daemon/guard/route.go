package guard

import "net/http"

// Route is one method and pattern of an API, and what it asks of its caller.
type Route struct {
	Method string
	// Pattern is the path as http.ServeMux reads it, without the method.
	Pattern string
	// Role is the least that the caller must have.
	Role Role
	// Handler answers.
	Handler http.Handler
}
