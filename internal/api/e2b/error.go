package e2b

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/wire"
)

// Error is an error in the words of E2B's API.
type Error struct {
	Status  int
	Message string
	Sandbox string // of a sandbox that does not run: the SDKs look for it
}

func (e *Error) Error() string { return e.Message }

// invalidError returns the error of a request that can't be meant.
func invalidError(format string, a ...any) error {
	return &Error{Status: http.StatusBadRequest, Message: fmt.Sprintf(format, a...)}
}

// unsupportedError returns the error of a request for what atoll does not have.
func unsupportedError(format string, a ...any) error {
	return &Error{Status: http.StatusNotImplemented, Message: fmt.Sprintf(format, a...) + ": atoll does not support it"}
}

// DeadSandbox is the answer to a request to a sandbox that does not exist, or that the caller may not
// know of.
func DeadSandbox(id string) error {
	return &Error{Status: http.StatusBadGateway, Message: "The sandbox was not found", Sandbox: shortenText(id)}
}

// deadSandbox replaces the error of a sandbox that does not exist or does not run.
func deadSandbox(id string, err error) error {
	if errors.Is(err, atoll.ErrNotFound) {
		return DeadSandbox(id)
	}
	return err
}

// statusOf returns the HTTP status of an error that is not nil.
func statusOf(err error) int {
	var own *Error
	if errors.As(err, &own) {
		return own.Status
	}
	switch status := wire.ReasonOf(err).Status; status {
	case http.StatusUnprocessableEntity:
		return http.StatusBadRequest
	default:
		return status
	}
}

// WriteError answers a request with an error.
func WriteError(w http.ResponseWriter, r *http.Request, status int, err error, message string) {
	var own *Error
	if errors.As(err, &own) {
		status, message = own.Status, own.Message
	} else if status == http.StatusUnprocessableEntity {
		status = http.StatusBadRequest
	}
	w.Header().Set("Content-Type", "application/json")
	var body any
	switch {
	case own != nil && own.Sandbox != "":
		body = map[string]any{"sandboxId": own.Sandbox, "message": message, "code": status}
	case isRPC(r):
		body = rpcError{Code: codeOfStatus(status), Message: message}
	default:
		body = map[string]any{"code": status, "message": message}
	}
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body) // write errors mean that the client is gone
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
func (c *call) writeEmpty(err error) error {
	if err == nil {
		c.w.WriteHeader(http.StatusNoContent)
	}
	return err
}

// maxBody is the size of a JSON body in bytes.
const maxBody = 4 << 20

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
