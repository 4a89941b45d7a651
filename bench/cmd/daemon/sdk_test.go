package main

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/lambda"
	"github.com/aws/aws-sdk-go-v2/service/lambda/types"
	"github.com/aws/smithy-go"
)

// TestSDK has the AWS SDK for Go call a Lambda front that checks signatures.
func TestSDK(t *testing.T) {
	t.Parallel()
	s, err := newSite(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	v, err := s.start(context.WithoutCancel(t.Context()), false, true)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := v.stop(); err != nil {
			t.Error(err)
		}
	})
	c, err := newSDK(v)
	if err != nil {
		t.Fatal(err)
	}
	defer c.close()
	client, name := c.(sdk).client, aws.String("noop")
	for _, f := range []string{"noop", "noop:$LATEST", "arn:aws:lambda:us-east-1:123456789012:function:noop"} {
		out, err := client.Invoke(t.Context(), &lambda.InvokeInput{FunctionName: &f, LogType: types.LogTypeTail, ClientContext: aws.String("e30=")})
		if err != nil || out.StatusCode != 200 || out.FunctionError != nil || aws.ToString(out.ExecutedVersion) != "$LATEST" || out.LogResult == nil {
			t.Errorf("%s: %+v, %v", f, out, err)
		}
	}
	out, err := client.Invoke(t.Context(), &lambda.InvokeInput{FunctionName: name, InvocationType: types.InvocationTypeEvent, Payload: []byte(`{"a": 1}`)})
	if err != nil || out.StatusCode != 202 {
		t.Errorf("event: %+v, %v", out, err)
	}
	if out, err = client.Invoke(t.Context(), &lambda.InvokeInput{FunctionName: name, InvocationType: types.InvocationTypeDryRun}); err != nil || out.StatusCode != 204 {
		t.Errorf("dry run: %+v, %v", out, err)
	}
	refused(t, client, new(*types.ResourceNotFoundException), &lambda.InvokeInput{FunctionName: aws.String("none")})
	refused(t, client, new(*types.ResourceNotFoundException), &lambda.InvokeInput{FunctionName: name, Qualifier: aws.String("7")})
	refused(t, client, new(*types.InvalidRequestContentException), &lambda.InvokeInput{FunctionName: name, Payload: []byte("{")})
	refused(t, client, new(*types.RequestTooLargeException), &lambda.InvokeInput{FunctionName: name, Payload: []byte(`"` + strings.Repeat("x", 6<<20) + `"`)})

	stream, err := client.InvokeWithResponseStream(t.Context(), &lambda.InvokeWithResponseStreamInput{FunctionName: name})
	if err != nil {
		t.Fatal(err)
	}
	var last types.InvokeWithResponseStreamResponseEvent
	for e := range stream.GetStream().Events() {
		last = e
	}
	if end, ok := last.(*types.InvokeWithResponseStreamResponseEventMemberInvokeComplete); !ok || end.Value.ErrorCode != nil || stream.GetStream().Err() != nil {
		t.Errorf("the stream ends with %+v, %v", last, stream.GetStream().Err())
	}
}

// refused wants an error of a type, with a text.
func refused[T smithy.APIError](t *testing.T, client *lambda.Client, want *T, in *lambda.InvokeInput) {
	t.Helper()
	_, err := client.Invoke(t.Context(), in)
	if !errors.As(err, want) || (*want).ErrorMessage() == "" {
		t.Errorf("%s: %v", aws.ToString(in.FunctionName), err)
	}
}
