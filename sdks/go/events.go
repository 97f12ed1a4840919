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
	// The server sends data at least every 15 seconds. After this time without data, the connection counts as dead.
	silence = 45 * time.Second
	// Maximum number of consecutive connections without an event.
	maxFailures = 10
	// Maximum size of one event. The largest is the result with its output and logs.
	maxEventBytes = 64 << 20
)

// Event is an event of a run. Type is "state", "log" or "result"; the result is the last event.
type Event struct {
	Type string
	// ID can be passed to Events as after, to resume behind this event.
	ID   string
	Time string
	// Status is set in state events: queued or running.
	Status string
	// Stream and Text are set in log events. Stream is "stdout" or "stderr" for runs with a script, otherwise "merged".
	Stream, Text string
	// Result is set in result events.
	Result *RunResult
}

// Events iterates over the events of a run in real time, up to and including its result. After a lost connection, it reconnects and
// resumes. after is the ID of the event after which to start; empty means from the beginning.
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
			if !isTransient(err) || reader.failures >= maxFailures || wait(ctx, reader.pause) != nil {
				yield(Event{}, err)
				return
			}
		}
	}
}

// readEvents reads the events of one connection; ended is true if the consumer stopped or the run has finished.
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

// isTransient reports whether a retry can succeed.
func isTransient(err error) bool {
	var refused *APIError
	if errors.As(err, &refused) {
		return !refused.foreign && (refused.StatusCode >= 500 || refused.StatusCode == http.StatusTooManyRequests)
	}
	return errors.Is(err, ErrConnection) && !errors.Is(err, context.Canceled) && !errors.Is(err, context.DeadlineExceeded)
}

// eventReader is the position in an event stream. It outlives connections.
type eventReader struct {
	lastID   string
	pause    time.Duration
	failures int
}

// next returns the next event. An event without a Type is a comment, or an event type of a newer server.
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
	// Set after decoding: an event that could not be decoded must be sent again after a reconnect.
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
