package skillbox

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"strconv"
	"time"
)

const (
	// The server says something at least every 15 seconds; a silence of this length is a dead connection.
	silence = 45 * time.Second
	// Connections in a row that brought nothing before we give up.
	maxFailures = 10
	// What one event may hold: the result with its output and logs.
	maxEventBytes = 64 << 20
)

// Event is something that happened to a run. Type is "state", "log" or "result"; after a result nothing comes.
type Event struct {
	Type string
	// ID is what to go on behind, for another time.
	ID   string
	Time string
	// Status of a state event: queued or running.
	Status string
	// Stream and Text of a log event: "stdout" and "stderr" for runs with a script, else "merged".
	Stream, Text string
	// Result is not nil in a result event.
	Result *RunResult
}

// Events are what happens to a run, up to and with its result. Broken connections are taken up where they broke. after is the ID of an
// event to go on behind; empty means from the beginning.
func (c *Client) Events(ctx context.Context, executionID, after string) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		reader := &eventReader{lastID: after, pause: time.Second}
		requestID := newID()
		for {
			ended, err := c.readEvents(ctx, executionID, requestID, reader, yield)
			if ended {
				return
			}
			reader.failures++
			if !passes(err) || reader.failures >= maxFailures || wait(ctx, reader.pause) != nil {
				yield(Event{}, err)
				return
			}
		}
	}
}

// readEvents reads one connection; ended says that the reader has had enough, or the run.
func (c *Client) readEvents(
	ctx context.Context, executionID, requestID string, reader *eventReader, yield func(Event, error) bool,
) (ended bool, err error) {
	k := get("v1", "executions", executionID, "events")
	k.silence = silence
	k.header = http.Header{"Accept": {"text/event-stream"}}
	if reader.lastID != "" {
		k.header["Last-Event-Id"] = []string{reader.lastID}
	}
	response, err := c.open(ctx, k, requestID)
	if err != nil {
		return false, err
	}
	defer response.Body.Close()
	lines := bufio.NewReader(response.Body)
	for {
		event, err := reader.next(lines)
		var unreadable *json.SyntaxError
		switch {
		case errors.As(err, &unreadable):
			return false, invalidResponse(response, requestID, err)
		case err == io.EOF || errors.Is(err, io.ErrUnexpectedEOF):
			return false, &ConnectionError{URL: c.base, RequestID: requestID, Err: errors.New("the stream ended without a result"), sent: true}
		case err != nil:
			return false, err
		case event.Type == "":
			continue
		}
		reader.failures = 0
		if !yield(event, nil) || event.Result != nil {
			return true, nil
		}
	}
}

// passes reports whether asking again can change anything.
func passes(err error) bool {
	var refused *APIError
	if errors.As(err, &refused) {
		return !refused.foreign && (refused.StatusCode >= 500 || refused.StatusCode == http.StatusTooManyRequests)
	}
	return errors.Is(err, ErrConnection) && !errors.Is(err, context.Canceled) && !errors.Is(err, context.DeadlineExceeded)
}

// eventReader is where the reader of a stream is. It outlives connections.
type eventReader struct {
	lastID   string
	pause    time.Duration
	failures int
}

// next is the next event; one without a type is a comment, or a kind that a newer server has.
func (r *eventReader) next(lines *bufio.Reader) (Event, error) {
	var kind, id string
	var data []byte
	var seen bool
	for {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			return Event{}, err
		}
		line = bytes.TrimRight(line, "\r\n")
		if len(line) == 0 {
			break
		}
		name, value, _ := bytes.Cut(line, []byte(":"))
		value = bytes.TrimPrefix(value, []byte(" "))
		switch string(name) {
		case "event":
			kind = string(value)
		case "id":
			id, seen = string(value), true
		case "data":
			if data != nil {
				data = append(data, '\n')
			}
			data = append(data, value...)
		case "retry":
			if milliseconds, err := strconv.Atoi(string(value)); err == nil {
				r.pause = time.Duration(milliseconds) * time.Millisecond
			}
		}
		if len(data) > maxEventBytes {
			return Event{}, fmt.Errorf("skillbox: an event has more than %d bytes", maxEventBytes)
		}
	}
	event, err := parseEvent(kind, id, data)
	// Only now: an event that cannot be read has not been seen.
	if err == nil && seen {
		r.lastID = id
	}
	return event, err
}

func parseEvent(kind, id string, data []byte) (Event, error) {
	event := Event{Type: kind, ID: id}
	switch kind {
	case "state", "log":
		var told struct{ Status, Time, Stream, Text string }
		err := json.Unmarshal(data, &told)
		event.Status, event.Time, event.Stream, event.Text = told.Status, told.Time, told.Stream, told.Text
		return event, err
	case "result":
		event.Result = &RunResult{}
		return event, json.Unmarshal(data, event.Result)
	}
	return Event{}, nil
}
