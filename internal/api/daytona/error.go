package daytona

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/wire"
)

// Error is an error in the words of Daytona's API.
type Error struct {
	Status  int
	Code    string // by which the SDKs choose a class; empty: by the status
	Message string
}

func (e *Error) Error() string { return e.Message }

// invalidError returns the error of a request that can't be meant.
func invalidError(format string, a ...any) error {
	return &Error{Status: http.StatusBadRequest, Message: fmt.Sprintf(format, a...)}
}

// unsupportedError returns the error of a request for what atoll does not have.
func unsupportedError(format string, a ...any) error {
	return &Error{Status: http.StatusNotImplemented, Code: "NOT_IMPLEMENTED", Message: fmt.Sprintf(format, a...) + ": atoll does not support it"}
}

// missingSandbox is the error of a sandbox that does not exist, or that the caller may not know of.
func missingSandbox(key string) error {
	return &Error{Status: http.StatusNotFound, Message: "Sandbox with ID or name " + shortenText(key) + " not found"}
}

// codes are the codes of errors by their status.
var codes = map[int]string{
	400: "BAD_REQUEST", 401: "UNAUTHORIZED", 403: "FORBIDDEN", 404: "NOT_FOUND", 408: "REQUEST_TIMEOUT", 409: "CONFLICT", 413: "PAYLOAD_TOO_LARGE",
	429: "TOO_MANY_REQUESTS", 500: "INTERNAL_SERVER_ERROR", 501: "NOT_IMPLEMENTED", 502: "BAD_GATEWAY", 503: "SERVICE_UNAVAILABLE", 504: "GATEWAY_TIMEOUT",
}

// errorBody is the body of an error.
type errorBody struct {
	StatusCode int    `json:"statusCode"`
	Source     string `json:"source"`
	Code       string `json:"code"`
	Message    string `json:"message"`
	Timestamp  string `json:"timestamp"`
	Path       string `json:"path"`
	Method     string `json:"method"`
}

// WriteError answers a request with an error.
func WriteError(w http.ResponseWriter, r *http.Request, status int, err error, message string) {
	var own *Error
	code := ""
	if errors.As(err, &own) {
		status, message, code = own.Status, own.Message, own.Code
	} else if status == http.StatusUnprocessableEntity {
		status = http.StatusBadRequest
	}
	if code == "" {
		code = codes[status]
	}
	source := "DAYTONA_API"
	if KindOf(r) == Toolbox {
		source = "DAYTONA_DAEMON"
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	// Write errors mean that the client is gone.
	_ = json.NewEncoder(w).Encode(errorBody{status, source, code, message, timeText(time.Now()), shortenText(r.URL.Path), r.Method})
}

// statusOf returns the HTTP status of an error that is not nil.
func statusOf(err error) int {
	var own *Error
	if errors.As(err, &own) {
		return own.Status
	}
	if status := wire.ReasonOf(err).Status; status != http.StatusUnprocessableEntity {
		return status
	}
	return http.StatusBadRequest
}

// fileError replaces the errors of files by those that clients know.
func fileError(name string, err error) error {
	if errors.Is(err, atoll.ErrNotFound) {
		return &Error{Status: http.StatusNotFound, Code: "FILE_NOT_FOUND", Message: "file not found: " + shortenText(name)}
	}
	return err
}

// writeJSON answers with a value.
func (c *call) writeJSON(status int, v any) error {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return err
	}
	c.w.Header().Set("Content-Type", "application/json")
	c.w.Header().Set("Content-Length", strconv.Itoa(b.Len()))
	c.w.WriteHeader(status)
	_, _ = c.w.Write(b.Bytes()) // write errors mean that the client is gone
	return nil
}

// writeEmpty answers success without a body.
func (c *call) writeEmpty(status int, err error) error {
	if err == nil {
		c.w.WriteHeader(status)
	}
	return err
}

// maxBody is the size of a JSON body in bytes.
const maxBody = 16 << 20

// readJSON reads a body of JSON. Unknown members are ignored: newer SDKs send more. An empty body is no
// error.
func (c *call) readJSON(v any) error {
	b, err := io.ReadAll(io.LimitReader(c.r.Body, maxBody+1))
	switch {
	case err != nil:
		return invalidError("the body is incomplete: %v", err)
	case len(b) > maxBody:
		return &Error{Status: http.StatusRequestEntityTooLarge, Message: fmt.Sprintf("the body is too large: the limit is %d bytes", maxBody)}
	case len(bytes.TrimSpace(b)) == 0:
		return nil
	}
	return decodeJSON(b, v)
}

// decodeJSON decodes one JSON value.
func decodeJSON(b []byte, v any) error {
	err := json.Unmarshal(b, v)
	var wrong *json.UnmarshalTypeError
	switch {
	case errors.As(err, &wrong):
		return invalidError("%s: %s has the wrong type", strings.TrimPrefix(wrong.Field, "."), wrong.Value)
	case err != nil:
		return invalidError("the body is not JSON: %v", err)
	}
	return nil
}

// shortenText cuts a text of a client to 128 bytes for a message.
func shortenText(s string) string {
	if len(s) > 128 {
		s = s[:128]
	}
	return strings.ToValidUTF8(s, "\uFFFD")
}

// timeText formats a time for clients.
func timeText(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000Z") }
