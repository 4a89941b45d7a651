package main

import (
	"context"
	"errors"
	"net/http"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/lambda"
)

// sdk is a caller by the AWS SDK for Go, with a connection of its own.
type sdk struct {
	client *lambda.Client
	http   *http.Client
}

func newSDK(v *server) (caller, error) {
	key := aws.Credentials{AccessKeyID: keyID, SecretAccessKey: keySecret}
	c := &http.Client{Transport: &http.Transport{}}
	return sdk{http: c, client: lambda.New(lambda.Options{
		BaseEndpoint: aws.String("http://" + v.lambda), Region: "us-east-1", HTTPClient: c,
		Credentials: aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) { return key, nil }),
	})}, nil
}

func (s sdk) call(ctx context.Context) error {
	out, err := s.client.Invoke(ctx, &lambda.InvokeInput{FunctionName: aws.String("noop"), Payload: []byte("{}")})
	if err == nil && out.FunctionError != nil {
		err = errors.New("the function has failed: " + string(out.Payload))
	}
	return err
}

func (s sdk) close() { s.http.CloseIdleConnections() }
