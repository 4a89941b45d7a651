package invoke

import (
	"regexp"
	"strings"
)

// name is a function as a caller names it. Empty fields were not given.
type name struct{ partition, region, account, function, qualifier string }

const (
	longestName = 256
	latest      = "$LATEST"
)

// namePattern is that of the Invoke API: a name, a partial ARN or an ARN, each with or
// without a qualifier.
var namePattern = regexp.MustCompile(`^(?:arn:(aws[a-zA-Z-]*):lambda:)?(?:([a-z]{2}(?:-[a-z]+)+-\d):)?(?:(\d{12}):)?(?:function:)?([a-zA-Z0-9._-]+)(?::(\$LATEST|[a-zA-Z0-9_-]+))?$`)

// parseName parses the name of a function; ok is false if it is not valid.
func parseName(s string) (n name, ok bool) {
	if len(s) > longestName {
		return n, false
	}
	p := namePattern.FindStringSubmatch(s)
	if p == nil || p[1] != "" && (p[2] == "" || p[3] == "") {
		return n, false
	}
	return name{p[1], p[2], p[3], p[4], p[5]}, true
}

// qualify adds the qualifier of a query; ok is false if the name has another one.
func (n *name) qualify(qualifier string) (ok bool) {
	if qualifier == "" {
		return true
	}
	if n.qualifier == "" {
		n.qualifier = qualifier
	}
	return n.qualifier == qualifier
}

// arn returns the ARN of n, with defaults for what the caller did not give.
func (n *name) arn(region, account string) string {
	or := func(s, other string) string {
		if s == "" {
			return other
		}
		return s
	}
	parts := []string{"arn", or(n.partition, "aws"), "lambda", or(n.region, or(region, "us-east-1")), or(n.account, or(account, "000000000000")), "function", n.function}
	if n.qualifier != "" {
		parts = append(parts, n.qualifier)
	}
	return strings.Join(parts, ":")
}
