package shapes

import (
	"bytes"
	"crypto/md5" //nolint:gosec // SQS has this checksum
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/bullpen-run/bullpen/internal/wire"
)

// SQS has the event as input that AWS Lambda makes of messages of an SQS queue, and a
// partial batch response as answer. See
// https://docs.aws.amazon.com/lambda/latest/dg/services-sqs-errorhandling.html.
type SQS struct {
	// Queue is the name of the queue, Region its region.
	Queue, Region string
}

var _ Shape = SQS{}

// record is a message in an event, without its IDs.
type record struct {
	Body       string               `json:"body"`
	Attributes attributes           `json:"attributes"`
	Meta       map[string]attribute `json:"messageAttributes"`
	MD5        string               `json:"md5OfBody"`
	Source     string               `json:"eventSource"`
	SourceARN  string               `json:"eventSourceARN"`
	Region     string               `json:"awsRegion"`
}

type attributes struct {
	Count  string `json:"ApproximateReceiveCount"`
	Sent   string `json:"SentTimestamp"`
	Sender string `json:"SenderId"`
	First  string `json:"ApproximateFirstReceiveTimestamp"`
}

type attribute struct {
	Text   string   `json:"stringValue"`
	Texts  []string `json:"stringListValues"`
	Binary []string `json:"binaryListValues"`
	Type   string   `json:"dataType"`
}

// Item returns the record of a task.
func (s SQS) Item(t Task) ([]byte, error) {
	if !utf8.Valid(t.Payload) {
		return nil, errors.New("its payload is not UTF-8, and the body of an SQS message is text: encode it, in base64 for instance")
	}
	sum := md5.Sum(t.Payload) //nolint:gosec // SQS has this checksum
	at := strconv.FormatInt(time.Now().UnixMilli(), 10)
	r := record{
		Body: string(t.Payload), Attributes: attributes{Count: "1", Sent: at, Sender: "bullpen", First: at},
		Meta: map[string]attribute{}, MD5: hex.EncodeToString(sum[:]), Source: "aws:sqs",
		SourceARN: "arn:aws:sqs:" + s.Region + ":000000000000:" + s.Queue, Region: s.Region,
	}
	if t.Attempt != "" {
		r.Attributes.Count = t.Attempt
	}
	for key, value := range t.Meta {
		if !strings.HasPrefix(key, "bullpen.") {
			r.Meta[key] = attribute{Text: value, Texts: []string{}, Binary: []string{}, Type: "String"}
		}
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(r); err != nil {
		return nil, err
	}
	return bytes.TrimSpace(b.Bytes()), nil
}

// Join returns the event.
func (SQS) Join(items [][]byte, ids []string) (input []byte, known []string) {
	known = unique(ids)
	input = append(input, `{"Records":[`...)
	for i, item := range items {
		if i > 0 {
			input = append(input, ',')
		}
		id, _ := json.Marshal(known[i]) // a text can be encoded
		input = append(input, `{"messageId":`...)
		input = append(input, id...)
		input = append(input, `,"receiptHandle":`...)
		input = append(input, id...)
		input = append(append(input, ','), item[1:]...)
	}
	return append(input, "]}"...), known
}

// Split fails the messages in batchItemFailures. As at AWS, nothing or null is success of
// all, and what is malformed, or names a message that is not in the event, is failure of all.
func (SQS) Split(answer []byte, known []string) ([]Reply, error) {
	replies := make([]Reply, len(known))
	if len(bytes.TrimSpace(answer)) == 0 {
		return replies, nil
	}
	var a struct {
		Failures []struct {
			ID *string `json:"itemIdentifier"`
		} `json:"batchItemFailures"`
	}
	if err := json.Unmarshal(answer, &a); err != nil {
		return nil, fmt.Errorf("%w: it must be null or {\"batchItemFailures\": [{\"itemIdentifier\": ID}, ...]}: %w", errMalformed, err)
	}
	if len(a.Failures) == 0 {
		return replies, nil
	}
	numbers := make(map[string]int, len(known))
	for i, id := range known {
		numbers[id] = i
	}
	for _, f := range a.Failures {
		if f.ID == nil {
			return nil, fmt.Errorf("%w: an entry of batchItemFailures has no itemIdentifier", errMalformed)
		}
		i, ok := numbers[*f.ID]
		if !ok {
			return nil, fmt.Errorf("%w: batchItemFailures has the itemIdentifier %q, which is none of the event's messageIds", errMalformed, *f.ID)
		}
		replies[i].Failure = &wire.Failure{Type: "BatchItemFailure", Message: "the function has named it in batchItemFailures"}
	}
	return replies, nil
}
