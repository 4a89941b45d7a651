package invoke

import (
	"net/http"
	"strings"
	"testing"
)

func TestNames(t *testing.T) {
	t.Parallel()
	s := &stage{}
	fronts := map[string]http.Handler{
		"any": handlerOf(New(Config{Backend: s})),
		"one": handlerOf(New(Config{Backend: s, Account: "123456789012", Region: "eu-west-1"})),
	}
	const there, gone, bad = 200, 404, 400
	for _, c := range []struct {
		front, name string
		status      int
		arn         string
	}{
		{"any", "echo", there, "arn:aws:lambda:us-east-1:000000000000:function:echo"},
		{"any", "echo:$LATEST", there, "arn:aws:lambda:us-east-1:000000000000:function:echo:$LATEST"},
		{"any", "echo%3A%24LATEST", there, "arn:aws:lambda:us-east-1:000000000000:function:echo:$LATEST"},
		{"any", "echo", there, "arn:aws:lambda:us-east-1:000000000000:function:echo"},
		{"any", "123456789012:function:echo", there, "arn:aws:lambda:us-east-1:123456789012:function:echo"},
		{"any", "arn:aws-cn:lambda:cn-north-1:123456789012:function:echo", there, "arn:aws-cn:lambda:cn-north-1:123456789012:function:echo"},
		{"any", "arn:aws:lambda:us-gov-east-1:123456789012:function:echo:$LATEST", there, "arn:aws:lambda:us-gov-east-1:123456789012:function:echo:$LATEST"},
		{"one", "echo", there, "arn:aws:lambda:eu-west-1:123456789012:function:echo"},
		{"one", "arn:aws:lambda:eu-west-1:123456789012:function:echo", there, "arn:aws:lambda:eu-west-1:123456789012:function:echo"},
		{"one", "arn:aws:lambda:eu-west-2:123456789012:function:echo", gone, ""},
		{"one", "arn:aws:lambda:eu-west-1:123456789013:function:echo", gone, ""},
		{"any", "none", gone, ""},
		{"any", "Our.Function", gone, ""},
		{"any", "echo:1", gone, ""},
		{"any", "echo:live", gone, ""},
		{"any", "echo?Qualifier=$LATEST", there, "arn:aws:lambda:us-east-1:000000000000:function:echo:$LATEST"},
		{"any", "echo:$LATEST?Qualifier=%24LATEST", there, "arn:aws:lambda:us-east-1:000000000000:function:echo:$LATEST"},
		{"any", "echo?Qualifier=live", gone, ""},
		{"any", "echo:$LATEST?Qualifier=live", bad, ""},
		{"any", "ec%20ho", bad, ""},
		{"any", "arn:aws:lambda:function:echo", bad, ""},
		{"any", "a:b:c", bad, ""},
		{"any", strings.Repeat("x", 257), bad, ""},
	} {
		name, query, _ := strings.Cut(c.name, "?")
		w := request(fronts[c.front], "/2015-03-31/functions/"+name+"/invocations?"+query, "1")
		if w.Code != c.status {
			t.Errorf("%s at %s: %d %s, want %d", c.name, c.front, w.Code, w.Body, c.status)
			continue
		}
		switch kind := w.Header().Get("X-Amzn-ErrorType"); {
		case c.status == gone && kind != "ResourceNotFoundException", c.status == bad && kind != "InvalidParameterValueException":
			t.Errorf("%s: %s %s", c.name, kind, w.Body)
		case c.status == there && s.ran[len(s.ran)-1].Meta["lambda.function-arn"] != c.arn:
			t.Errorf("%s: %v, want %s", c.name, s.ran[len(s.ran)-1].Meta, c.arn)
		}
	}
}

// FuzzName shows that every valid name has a function, and an ARN that is a name too.
func FuzzName(f *testing.F) {
	for _, s := range []string{"echo", "echo:$LATEST", "123456789012:function:echo:1", "arn:aws:lambda:us-east-1:123456789012:function:echo:live", "us-east-1:echo", "function:x"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		n, ok := parseName(s)
		if !ok {
			return
		}
		again, ok := parseName(n.arn("", ""))
		if !ok && len(n.arn("", "")) <= longestName || n.function == "" || ok && (again.function != n.function || again.qualifier != n.qualifier) {
			t.Errorf("%q is %+v, and its ARN %+v", s, n, again)
		}
	})
}
