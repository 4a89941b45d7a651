package guard

import "net/http"

// Route is one method and pattern of an API, and what it asks of its caller.
type Route struct {
	Method string
	// Pattern is the path as http.ServeMux reads it, without the method.
	Pattern string
	// Role is the least that the caller must have.
	Role Role
	// Streams says that the handler works its body off while it comes: such a body
	// has no largest size, and of the room for all bodies it holds a part only.
	Streams bool
	// Follows says that the handler tells of what happens until the context of the
	// request ends, and that an end of it is as good as the caller's going: it ends
	// when the token of the caller does, or has the role no more.
	Follows bool
	// Handler answers.
	Handler http.Handler
}
