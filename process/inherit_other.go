//go:build !unix

package process

// inherits reports whether a child can inherit descriptors beyond the standard ones.
const inherits = false
