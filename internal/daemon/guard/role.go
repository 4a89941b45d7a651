package guard

import "context"

// Role says what a caller may do. Each role includes those before it.
type Role uint8

const (
	// None is for what anybody may ask: whether the daemon lives.
	None Role = iota
	// Read may look at everything but change nothing.
	Read
	// Submit may hand in, cancel and retry jobs.
	Submit
	// Admin may change pools and remove what is kept.
	Admin
)

// String returns the word for r.
func (r Role) String() string {
	switch r {
	case Read:
		return "read"
	case Submit:
		return "submit"
	case Admin:
		return "admin"
	default:
		return "none"
	}
}

type roleKey struct{}

// WithRole returns a context that says which role its caller has.
func WithRole(ctx context.Context, r Role) context.Context {
	return context.WithValue(ctx, roleKey{}, r)
}

// RoleOf tells which role the caller of a request has, None where nothing says so.
func RoleOf(ctx context.Context) Role {
	r, _ := ctx.Value(roleKey{}).(Role)
	return r
}
