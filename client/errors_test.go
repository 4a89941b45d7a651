package client_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/bullpen-run/bullpen"
	"github.com/bullpen-run/bullpen/client"
	"github.com/bullpen-run/bullpen/job"
)

// TestCauses holds the causes of the API against the errors.
func TestCauses(t *testing.T) {
	t.Parallel()
	for cause, c := range map[string]struct {
		status int
		want   []error
	}{
		"bad-request":  {400, []error{client.ErrBadRequest}},
		"unauthorized": {401, []error{client.ErrUnauthorized}},
		"forbidden":    {403, []error{client.ErrForbidden}},
		"not-found":    {404, []error{job.ErrNotFound}},
		"unknown-pool": {404, []error{client.ErrUnknownPool, job.ErrNotFound}},
		"method":       {405, []error{client.ErrBadRequest}},
		"ended":        {409, []error{job.ErrEnded}},
		"not-dead":     {409, []error{client.ErrNotDead}},
		"not-ended":    {409, []error{job.ErrNotEnded}},
		"payload-gone": {410, []error{job.ErrPayloadGone}},
		"nested":       {409, []error{client.ErrNested, bullpen.ErrOverloaded}},
		"busy-id":      {409, []error{client.ErrBusyID}},
		"incomplete":   {409, []error{job.ErrIncomplete}},
		"overlap":      {409, []error{job.ErrOverlap}},
		"managed":      {409, []error{client.ErrManaged}},
		"too-large":    {413, []error{client.ErrTooLarge}},
		"media-type":   {415, []error{client.ErrBadRequest}},
		"bad-config":   {422, []error{client.ErrBadConfig}},
		"unknown-task": {422, []error{bullpen.ErrUnknownTask}},
		"refused":      {422, []error{bullpen.ErrRefused}},
		"overloaded":   {429, []error{bullpen.ErrOverloaded}},
		"full":         {429, []error{job.ErrFull, bullpen.ErrOverloaded}},
		"rate":         {429, []error{bullpen.ErrOverloaded}},
		"closed":       {503, []error{bullpen.ErrClosed}},
		"start-failed": {503, []error{bullpen.ErrStart}},
		"store":        {503, []error{job.ErrStore}},
		"unconfirmed":  {503, []error{job.ErrUnconfirmed}},
		"internal":     {500, []error{client.ErrInternal}},
	} {
		caller := scripted(t, client.Config{Retries: -1}, func(w http.ResponseWriter, _ *http.Request) {
			answerProblem(w, c.status, cause, `,"detail":"do this","faults":["one","two"],"job":"01J"`)
		})
		_, err := caller.Retry(t.Context(), "01J")
		var e *client.Error
		if !errors.As(err, &e) || e.Status != c.status || e.Cause != cause || e.Job != "01J" || len(e.Faults) != 2 {
			t.Errorf("%s gives %#v", cause, err)
		}
		for _, want := range c.want {
			if !errors.Is(err, want) {
				t.Errorf("%s gives %v, which is not %v", cause, err, want)
			}
		}
		if text := err.Error(); !strings.Contains(text, "do this") || !strings.Contains(text, "one; two") {
			t.Errorf("%s says %q, without what to do", cause, text)
		}
	}
}

// TestForeignAnswers are those of others than a daemon.
func TestForeignAnswers(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		status int
		text   string
		want   error
		says   string
	}{
		{404, "<html>\n<h1>nothing here", client.ErrAnswer, "look at the URL"},
		{301, "", client.ErrAnswer, "Moved Permanently"},
		{401, "who?", client.ErrUnauthorized, "who?"},
		{403, "no", client.ErrForbidden, "no"},
		{413, "", client.ErrTooLarge, "Too Large"},
		{429, "", bullpen.ErrOverloaded, "Many"},
		{500, `{"cause":7}`, client.ErrAnswer, "500"},
		{400, `{"type":"urn:other:thing"}`, client.ErrAnswer, "other"},
		{200, "welcome", client.ErrAnswer, "welcome"},
	} {
		caller := scripted(t, client.Config{Retries: -1}, func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(c.status)
			_, _ = io.WriteString(w, c.text)
		})
		_, err := caller.Get(t.Context(), "01J")
		if !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("an answer %d %q gives %v, want %v and the word %q", c.status, c.text, err, c.want, c.says)
		}
	}
}

func TestEndsOfJobs(t *testing.T) {
	t.Parallel()
	const failure = `"failure":{"outcome":"failed","task":"t","type":"ValueError","message":"no such user"}`
	for _, c := range []struct {
		problem string
		is      []error
		isNot   []error
		text    string
	}{
		{
			`"outcome":"failed","reason":"exhausted","job":"01J","attempts":3,"detail":"job 01J ended failed",` + failure,
			nil, []error{context.Canceled, context.DeadlineExceeded, bullpen.ErrRefused},
			`job 01J ended failed (exhausted) after 3 attempts: task "t" 01J failed: ValueError: no such user`,
		},
		{`"outcome":"failed","job":"01J","attempts":1,` + failure, nil, nil, `job 01J ended failed: task "t" 01J failed: ValueError: no such user`},
		{`"outcome":"canceled","reason":"canceled","job":"01J"`, []error{context.Canceled}, nil, "job 01J ended canceled"},
		{`"outcome":"timeout","reason":"expired","job":"01J","detail":"job 01J ended timeout (expired): too late"`, []error{context.DeadlineExceeded}, nil, "job 01J ended timeout (expired): too late"},
		{
			`"outcome":"failed","reason":"refused","job":"01J","detail":"unknown task"`,
			[]error{bullpen.ErrRefused, bullpen.ErrUnknownTask}, nil, "job 01J ended failed (refused): unknown task",
		},
		{`"outcome":"of the future","job":"01J"`, nil, nil, "job 01J ended lost"},
	} {
		caller := scripted(t, client.Config{}, func(w http.ResponseWriter, _ *http.Request) {
			answerProblem(w, 422, "ended-badly", ","+c.problem)
		})
		ref, _, err := caller.Run(t.Context(), job.Job{Queue: "p"})
		var end *job.EndError
		if !errors.As(err, &end) || ref.ID != "01J" || !ref.State.Ended() || err.Error() != c.text {
			t.Errorf("Run() = %+v, %v; want the text %q", ref, err, c.text)
		}
		var te *bullpen.TaskError
		if strings.Contains(c.problem, "failure") != errors.As(err, &te) {
			t.Errorf("%v: whether there is a TaskError differs", err)
		}
		for _, want := range c.is {
			if !errors.Is(err, want) {
				t.Errorf("%v is not %v", err, want)
			}
		}
		for _, no := range c.isNot {
			if errors.Is(err, no) {
				t.Errorf("%v is %v", err, no)
			}
		}
	}
}

func TestConfigReportsAllFaults(t *testing.T) {
	t.Parallel()
	_, err := client.New(client.Config{URL: "ftp://x", Token: "a b", Timeout: -1, Wait: -1, ConnectTimeout: -1, Retries: -2, MaxResult: -1})
	for _, word := range []string{"URL", "Token", "Timeout", "Wait", "ConnectTimeout", "Retries", "MaxResult"} {
		if err == nil || !strings.Contains(err.Error(), word) {
			t.Errorf("New() = %v, which does not mention %s", err, word)
		}
	}
	for url, fault := range map[string]string{
		"http://example.org":       "without TLS",
		"https://user@example.org": "user",
		"http://x/?a=b":            "query",
		"://":                      "URL",
		"http://":                  "host",
	} {
		if _, err := client.New(client.Config{URL: url, Token: "secret"}); err == nil || !strings.Contains(err.Error(), fault) || strings.Contains(err.Error(), "secret") {
			t.Errorf("New() for %s = %v, want a fault about %q", url, err, fault)
		}
	}
	for _, c := range []client.Config{
		{}, {URL: "http://[::1]:8650", Token: "t"}, {URL: "https://example.org/bullpen/", Token: "t"}, {URL: "http://example.org", Token: "t", PlainToken: true},
	} {
		if _, err := client.New(c); err != nil {
			t.Errorf("New(%+v) = %v", c, err)
		}
	}
	c := connect(t, client.Config{})
	_, err = c.Executor("p", client.ExecutorConfig{Inflight: -1, Queue: -2, Overflow: 9, CloseGrace: -1, Job: job.Job{Retry: job.Retry{Attempts: -1}}})
	for _, word := range []string{"Inflight", "Queue", "Overflow", "CloseGrace", "Attempts"} {
		if err == nil || !strings.Contains(err.Error(), word) {
			t.Errorf("Executor() = %v, which does not mention %s", err, word)
		}
	}
}

func TestPathBeforeTheAPI(t *testing.T) {
	t.Parallel()
	var path string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		path = r.URL.EscapedPath()
		_, _ = io.WriteString(w, jobText)
	}))
	t.Cleanup(server.Close)
	for before, want := range map[string]string{"": "/v1/jobs/a%2Fb%20c", "/": "/v1/jobs/a%2Fb%20c", "/x y/": "/x%20y/v1/jobs/a%2Fb%20c"} {
		c := connect(t, client.Config{URL: server.URL + before})
		if _, err := c.Get(t.Context(), "a/b c"); err != nil || path != want {
			t.Errorf("with %q before the API it asks for %s, want %s: %v", before, path, want, err)
		}
	}
}
