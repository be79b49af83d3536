package server

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strings"
	"time"
	"unicode/utf8"
)

// Limits of JSON documents, besides their size.
const (
	maxDepth  = 32 // of objects and lists in each other
	maxNumber = 64 // digits
)

// readJSON reads a body that is to be JSON, and refuses one that says different
// things to different readers.
func (s *Server) readJSON(r *http.Request, limit int64) error {
	if r.ContentLength == 0 || r.Body == nil || r.Body == http.NoBody {
		return nil
	}
	kind, params, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err != nil || kind != "application/json" || params["charset"] != "" && !strings.EqualFold(params["charset"], "utf-8") {
		return refuse(http.StatusUnsupportedMediaType, "Content-Type %q: must be application/json", r.Header.Get("Content-Type"))
	}
	if e := r.Header.Get("Content-Encoding"); e != "" && e != "identity" {
		return refuse(http.StatusUnsupportedMediaType, "Content-Encoding %q: JSON is taken as it is", e)
	}
	if r.ContentLength > limit {
		return tooLarge(limit)
	}
	if b, ok := r.Body.(*body); ok && s.limits.BodyTime > 0 {
		b.end = time.Now().Add(s.limits.BodyTime)
	}
	data, err := io.ReadAll(io.LimitReader(r.Body, limit+1))
	switch {
	case err != nil:
		return cutOff(err)
	case int64(len(data)) > limit:
		return tooLarge(limit)
	}
	_ = r.Body.Close() // all of it was read
	r.Body = io.NopCloser(bytes.NewReader(data))
	r.ContentLength = int64(len(data))
	if len(data) == 0 {
		return nil
	}
	return checkJSON(data)
}

func tooLarge(limit int64) error {
	return refuse(http.StatusRequestEntityTooLarge, "the body is too large: at most %d bytes are taken", limit)
}

// cutOff is the answer to a body that did not come to its end.
func cutOff(err error) error {
	if own := (*refusal)(nil); errors.As(err, &own) {
		return err
	}
	return refuse(http.StatusBadRequest, "the body broke off: %v", err)
}

// checkJSON refuses what is no JSON, nested too deeply, names a member twice,
// or has numbers without end.
func checkJSON(data []byte) error {
	if !utf8.Valid(data) {
		return refuse(http.StatusBadRequest, "body: must be valid UTF-8")
	}
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.UseNumber()
	if err := checkValue(dec, "body", 0); err != nil {
		if own := (*refusal)(nil); errors.As(err, &own) {
			return err
		}
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			return refuse(http.StatusBadRequest, "body: the JSON breaks off after %d bytes", len(data))
		}
		return refuse(http.StatusBadRequest, "body: not JSON near byte %d: %v", dec.InputOffset(), err)
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return refuse(http.StatusBadRequest, "body: there is more after the JSON value, at byte %d", dec.InputOffset())
	}
	return nil
}

func checkValue(dec *json.Decoder, at string, depth int) error {
	t, err := dec.Token()
	if err != nil {
		return err
	}
	switch v := t.(type) {
	case json.Number:
		if len(v) > maxNumber {
			return refuse(http.StatusBadRequest, "%s: a number of %d digits: at most %d are taken", at, len(v), maxNumber)
		}
	case json.Delim:
		if depth == maxDepth {
			return refuse(http.StatusBadRequest, "body: nested more than %d deep", maxDepth)
		}
		if v == '{' {
			return checkObject(dec, at, depth+1)
		}
		for i := 0; dec.More(); i++ {
			if err := checkValue(dec, fmt.Sprintf("%s[%d]", at, i), depth+1); err != nil {
				return err
			}
		}
		_, err = dec.Token()
	}
	return err
}

func checkObject(dec *json.Decoder, at string, depth int) error {
	seen := make(map[string]bool)
	for dec.More() {
		t, err := dec.Token()
		if err != nil {
			return err
		}
		name, _ := t.(string)
		where := at + "." + clip(name)
		if seen[name] {
			return refuse(http.StatusBadRequest, "%s: is there twice", where)
		}
		seen[name] = true
		if err := checkValue(dec, where, depth); err != nil {
			return err
		}
	}
	_, err := dec.Token()
	return err
}

// clip shortens a name for a message.
func clip(name string) string {
	const most = 64
	if len(name) <= most {
		return name
	}
	return strings.ToValidUTF8(name[:most], "") + "…"
}

// marshal writes an answer. That the caller is gone is no error: there is
// nobody to tell.
func marshal(w io.Writer, v any) error {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return err
	}
	_, _ = w.Write(buf.Bytes())
	return nil
}

// unmarshal reads a body, and says what is wrong with it in the words of the
// API.
func unmarshal(data []byte, v any) error {
	err := json.Unmarshal(data, v)
	var wrong *json.UnmarshalTypeError
	if errors.As(err, &wrong) {
		return fmt.Errorf("%s: %s does not fit", strings.Trim("body."+wrong.Field, "."), clip(wrong.Value))
	}
	return err
}
