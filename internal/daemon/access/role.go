package access

import "context"

// Role is what a caller may do. Each role includes those before it.
type Role uint8

const (
	// None allows what needs no token: whether the daemon is alive.
	None Role = iota
	// Read allows reading everything but no changes.
	Read
	// Submit allows enqueuing, canceling and retrying jobs.
	Submit
	// Admin allows changing pools and deleting what is kept.
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

// WithRole returns a context with the role of its caller.
func WithRole(ctx context.Context, r Role) context.Context {
	return context.WithValue(ctx, roleKey{}, r)
}

// RoleOf returns the role of the caller of a request; None if the context has none.
func RoleOf(ctx context.Context) Role {
	r, _ := ctx.Value(roleKey{}).(Role)
	return r
}
