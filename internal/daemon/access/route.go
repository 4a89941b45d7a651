package access

import "net/http"

// Route is one method and pattern of an API, and its requirements.
type Route struct {
	Method string
	// Pattern is a path pattern of http.ServeMux, without the method.
	Pattern string
	// Role is the least role that the caller needs.
	Role Role
	// Streams marks a handler that processes its body as it arrives. Such a body has
	// no maximum size, and holds only a part of the budget.
	Streams bool
	// Follows marks a handler that reports events until the context of the request
	// ends, and for which that end is the same as a disconnect. The context also ends
	// when the caller's token is removed or loses the role.
	Follows bool
	// Handler handles the request.
	Handler http.Handler
}
