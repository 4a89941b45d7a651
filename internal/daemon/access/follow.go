package access

import (
	"context"
	"errors"
	"sync"
)

// errTokenEnded is the cause when a stream ends because its token was removed.
var errTokenEnded = errors.New("the token was removed")

// followers are the requests that end when their token is removed.
type followers struct {
	mu  sync.Mutex
	all map[*follower]struct{} // guarded by mu
}

// follower is such a request.
type follower struct {
	token *token
	need  Role
	end   context.CancelCauseFunc
}

// follow returns a context that ends with ctx, with stop, and when the token is
// removed or loses the role.
func (t *tokens) follow(ctx context.Context, of *token, need Role) (_ context.Context, stop func()) {
	ctx, end := context.WithCancelCause(ctx)
	f := &follower{token: of, need: need, end: end}
	t.followers.mu.Lock()
	defer t.followers.mu.Unlock()
	if t.followers.all == nil {
		t.followers.all = make(map[*follower]struct{})
	}
	t.followers.all[f] = struct{}{}
	if !f.may(*t.all.Load()) { // it was removed since the request was admitted
		end(errTokenEnded)
	}
	return ctx, func() {
		end(nil)
		t.followers.mu.Lock()
		defer t.followers.mu.Unlock()
		delete(t.followers.all, f)
	}
}

// may reports whether one of the tokens is that of f and has the role.
func (f *follower) may(tokens []*token) bool {
	for _, t := range tokens {
		if t.digest == f.token.digest { // both come from the file, so timing reveals nothing to callers
			return t.role >= f.need
		}
	}
	return false
}

// use replaces the tokens, and ends requests whose token is gone or has lost the
// role.
func (t *tokens) use(all []*token) {
	t.followers.mu.Lock()
	defer t.followers.mu.Unlock()
	t.all.Store(&all)
	for f := range t.followers.all {
		if !f.may(all) {
			f.end(errTokenEnded)
		}
	}
}
