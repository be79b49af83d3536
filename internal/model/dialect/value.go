package dialect

import (
	"bytes"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/atoll-sandbox/atoll"
)

// object is a JSON object to encode.
type object = map[string]any

// readBody decodes a client's body into v, after CheckLimits.
func readBody(body []byte, v any) error {
	if err := CheckLimits(body); err != nil {
		return err
	}
	return read(body, v)
}

// read decodes JSON of a client into v; its error names the field.
func read(body []byte, v any) error {
	err := json.Unmarshal(body, v)
	var t *json.UnmarshalTypeError
	if errors.As(err, &t) && t.Field != "" {
		return fmt.Errorf("%w: %s: a JSON %s does not fit", atoll.ErrInvalid, t.Field, t.Value)
	}
	if err != nil {
		return fmt.Errorf("%w: the body: %w", atoll.ErrInvalid, err)
	}
	return nil
}

// parseText returns the value of a JSON string; false for other JSON.
func parseText(raw json.RawMessage) (string, bool) {
	if raw = bytes.TrimSpace(raw); len(raw) == 0 || raw[0] != '"' {
		return "", false
	}
	var s string
	return s, json.Unmarshal(raw, &s) == nil
}

// isAbsent reports whether raw is empty or null.
func isAbsent(raw json.RawMessage) bool {
	raw = bytes.TrimSpace(raw)
	return len(raw) == 0 || string(raw) == "null"
}

// inputObject returns a JSON object for the text of a tool's arguments, which a model may
// have written in any way.
func inputObject(text string) json.RawMessage {
	b := bytes.TrimSpace([]byte(text))
	if len(b) == 0 || string(b) == "null" {
		return json.RawMessage("{}")
	}
	if b[0] == '{' && json.Valid(b) {
		return b
	}
	if s, ok := parseText(b); ok && len(s) < len(b) { // encoded twice
		if t := bytes.TrimSpace([]byte(s)); len(t) > 0 && t[0] == '{' && json.Valid(t) {
			return t
		}
	}
	b, _ = encode(object{"arguments": text}) // can't fail for a string
	return b
}

// schemaOrDefault returns the schema of a tool or an answer, by default any object.
func schemaOrDefault(raw json.RawMessage) json.RawMessage {
	if isAbsent(raw) {
		return json.RawMessage(`{"type":"object","properties":{}}`)
	}
	return raw
}

// anyObject is the schema of an answer that may be any JSON object.
var anyObject = json.RawMessage(`{"type":"object"}`)

func isAnyObject(s json.RawMessage) bool { return string(s) == string(anyObject) }

// dataURL decodes a data URL; ok is false for other URLs.
func dataURL(s string) (media string, data []byte, ok bool) {
	rest, ok := strings.CutPrefix(s, "data:")
	if !ok {
		return "", nil, false
	}
	head, body, ok := strings.Cut(rest, ",")
	if !ok {
		return "", nil, false
	}
	media, _, _ = strings.Cut(head, ";")
	if strings.HasSuffix(head, ";base64") {
		b, err := decode64(body)
		return media, b, err == nil
	}
	b, err := url.PathUnescape(body)
	return media, []byte(b), err == nil
}

// decode64 decodes base64 of either alphabet, padded or not.
func decode64(s string) ([]byte, error) {
	s = strings.TrimRight(strings.Map(func(r rune) rune {
		switch r {
		case '-':
			return '+'
		case '_':
			return '/'
		case '\n', '\r', ' ':
			return -1
		}
		return r
	}, s), "=")
	return base64.RawStdEncoding.DecodeString(s)
}

func encode64(b []byte) string { return base64.StdEncoding.EncodeToString(b) }

func toDataURL(media string, b []byte) string {
	if media == "" {
		media = http.DetectContentType(b)
	}
	return "data:" + media + ";base64," + encode64(b)
}

// imageType returns an image's media type: the declared one, else the detected one.
func imageType(media string, b []byte) string {
	if media == "" || media == "image/*" {
		media, _, _ = strings.Cut(http.DetectContentType(b), ";")
	}
	return media
}

// readWhole decodes an answer that is not a stream; an error status is an *Error.
func readWhole(r *http.Response, v any) error {
	if r.StatusCode/100 != 2 {
		return ReadError(r)
	}
	b, err := io.ReadAll(io.LimitReader(r.Body, maxBody+1))
	if err != nil {
		return fmt.Errorf("answer: %w", err)
	}
	if len(b) > maxBody {
		return fmt.Errorf("%w: answer: it has more than %d bytes", atoll.ErrInvalid, maxBody)
	}
	if err := json.Unmarshal(b, v); err != nil {
		return fmt.Errorf("%w: answer: %w", atoll.ErrUnavailable, err)
	}
	return nil
}

// ReadError decodes an API's error answer, in any dialect.
func ReadError(r *http.Response) *Error {
	b, _ := io.ReadAll(io.LimitReader(r.Body, maxError)) // a part is enough
	e := &Error{Status: r.StatusCode, Code: codeOf(r.StatusCode), Message: http.StatusText(r.StatusCode)}
	if n, err := strconv.Atoi(r.Header.Get("Retry-After")); err == nil && n > 0 {
		e.RetryAfter = n
	}
	readError(b, e)
	return e
}

// readError fills e from the JSON of an error.
func readError(b []byte, e *Error) {
	var list []json.RawMessage
	if json.Unmarshal(b, &list) == nil && len(list) > 0 { // Gemini's streams
		b = list[0]
	}
	var doc struct {
		Error   json.RawMessage `json:"error"`
		Message string          `json:"message"`
		Detail  json.RawMessage `json:"detail"`
	}
	if json.Unmarshal(b, &doc) != nil {
		return
	}
	var in struct {
		Type, Message string
		Code          json.RawMessage
		Status        string
	}
	text, ok := parseText(doc.Error)
	switch {
	case ok:
		e.Message = text
	case json.Unmarshal(doc.Error, &in) == nil && in.Message != "":
		e.Message = in.Message
	case doc.Message != "":
		e.Message = doc.Message
	default:
		if text, ok := parseText(doc.Detail); ok {
			e.Message = text
		}
	}
	code, _ := parseText(in.Code)
	for _, word := range []string{code, in.Type, in.Status} {
		if c, ok := codeByWord[word]; ok {
			if e.Status != 0 && (c == "invalid_request" || c == "internal") {
				continue // the status is more precise
			}
			e.Code = c
			if e.Status == 0 {
				e.Status = statusOf(c)
			}
			return
		}
	}
}

// codeByWord maps the error names of APIs to codes.
var codeByWord = map[string]string{
	"authentication_error": "authentication", "invalid_api_key": "authentication", "UNAUTHENTICATED": "authentication",
	"permission_error": "permission", "PERMISSION_DENIED": "permission", "billing_error": "permission", "insufficient_quota": "permission",
	"invalid_request_error": "invalid_request", "INVALID_ARGUMENT": "invalid_request", "request_too_large": "invalid_request", "FAILED_PRECONDITION": "invalid_request",
	"not_found_error": "not_found", "model_not_found": "not_found", "NOT_FOUND": "not_found",
	"rate_limit_error": "rate_limit", "rate_limit_exceeded": "rate_limit", "RESOURCE_EXHAUSTED": "rate_limit", "requests": "rate_limit", "tokens": "rate_limit",
	"overloaded_error": "overloaded", "UNAVAILABLE": "overloaded", "server_overloaded": "overloaded",
	"api_error": "internal", "server_error": "internal", "internal_error": "internal", "INTERNAL": "internal",
	"timeout_error": "timeout", "DEADLINE_EXCEEDED": "timeout",
}

// codeOf returns the code for an HTTP status.
func codeOf(status int) string {
	switch status {
	case http.StatusUnauthorized:
		return "authentication"
	case http.StatusPaymentRequired, http.StatusForbidden:
		return "permission"
	case http.StatusNotFound:
		return "not_found"
	case http.StatusRequestTimeout, http.StatusGatewayTimeout:
		return "timeout"
	case http.StatusTooManyRequests:
		return "rate_limit"
	case http.StatusServiceUnavailable, 529:
		return "overloaded"
	}
	if status >= 400 && status < 500 {
		return "invalid_request"
	}
	return "internal"
}

// statusOf returns the HTTP status for a code.
func statusOf(code string) int {
	switch code {
	case "authentication":
		return http.StatusUnauthorized
	case "permission", "budget":
		return http.StatusForbidden
	case "invalid_request":
		return http.StatusBadRequest
	case "not_found":
		return http.StatusNotFound
	case "rate_limit":
		return http.StatusTooManyRequests
	case "overloaded":
		return http.StatusServiceUnavailable
	case "timeout":
		return http.StatusGatewayTimeout
	}
	return http.StatusInternalServerError
}

// statusAndRetry returns the status of an error, and sets the header Retry-After.
func (e *Error) statusAndRetry(w http.ResponseWriter) int {
	if e.RetryAfter > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(e.RetryAfter))
	}
	if e.Status < 400 || e.Status > 599 {
		return statusOf(e.Code)
	}
	return e.Status
}

// newID returns a random id.
func newID(prefix string) string { return prefix + rand.Text() }

// signatureOf returns the signature that a dialect issued; "" for one of another dialect.
func signatureOf(by Name, signature string) string {
	s, ok := strings.CutPrefix(signature, string(by)+":")
	if by == Anthropic {
		for _, other := range []Name{OpenAI, Responses, Gemini} {
			if strings.HasPrefix(signature, string(other)+":") {
				return ""
			}
		}
		return signature
	}
	if !ok {
		return ""
	}
	return s
}
