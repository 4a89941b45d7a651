package cli

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/bullpen-run/bullpen"
)

// appendText appends text as a JSON string; bytes that are not UTF-8 become
// U+FFFD.
func appendText[T string | []byte](b []byte, text T) []byte {
	for i := range len(text) {
		if c := text[i]; c < ' ' || c > '~' || c == '"' || c == '\\' {
			quoted, err := json.Marshal(string(text))
			if err != nil { // cannot happen for a string
				return append(b, `""`...)
			}
			return append(b, quoted...)
		}
	}
	b = append(b, '"')
	b = append(b, text...)
	return append(b, '"')
}

func appendSeconds(b []byte, d time.Duration) []byte {
	return strconv.AppendFloat(b, d.Seconds(), 'f', 6, 64)
}

// appendOutcome appends the fields that job log and JSON results have in common.
func appendOutcome(b []byte, it *item) []byte {
	b = appendText(append(b, `,"outcome":`...), it.outcome())
	b = append(b, `,"attempts":`...)
	b = strconv.AppendInt(b, int64(it.attempts), 10)
	b = appendSeconds(append(b, `,"waited":`...), it.result.Stats.Waited)
	b = appendSeconds(append(b, `,"ran":`...), it.result.Stats.Ran)
	te, started := errors.AsType[*bullpen.TaskError](it.err)
	worker := it.result.Stats.Worker
	if worker == "" && started {
		worker = te.Worker
	}
	if worker != "" {
		b = appendText(append(b, `,"worker":`...), worker)
	}
	if it.err == nil {
		return b
	}
	if started && te.ExitCode >= 0 {
		b = append(b, `,"exit":`...)
		b = strconv.AppendInt(b, int64(te.ExitCode), 10)
	}
	if started && te.Signal != "" {
		b = appendText(append(b, `,"signal":`...), te.Signal)
	}
	return appendText(append(b, `,"error":`...), reason(it.err))
}

// said returns what the item's process or worker wrote to standard error: all of it
// with exec, otherwise the last lines of a worker that failed.
func (it *item) said() string {
	if len(it.stderr) > 0 {
		return string(it.stderr)
	}
	if te, ok := errors.AsType[*bullpen.TaskError](it.err); ok {
		return te.Detail
	}
	return ""
}

// object appends the JSON object of an item that has ended. file is the file of its
// result; if empty, the result is part of the object.
func (w *writer) object(b []byte, it *item, file string) []byte {
	b = append(b, `{"index":`...)
	b = strconv.AppendInt(b, it.index, 10)
	if it.name != nil {
		b = appendText(append(b, `,"name":`...), it.name)
	}
	if w.options.tag && it.name == nil {
		b = appendText(append(b, `,"input":`...), it.line)
	}
	b = appendOutcome(b, it)
	if text := it.said(); text != "" {
		b = appendText(append(b, `,"stderr":`...), text)
	}
	switch {
	case it.err != nil:
	case file != "":
		b = appendText(append(b, `,"file":`...), file)
	case w.options.json:
		b = append(append(b, `,"result":`...), it.result.Payload...)
	case utf8.Valid(it.result.Payload):
		b = appendText(append(b, `,"result":`...), it.result.Payload)
	default:
		b = append(b, `,"encoding":"base64","result":"`...)
		b = base64.StdEncoding.AppendEncode(b, it.result.Payload)
		b = append(b, '"')
	}
	return append(b, '}')
}
