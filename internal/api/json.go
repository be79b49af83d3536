package api

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

	"github.com/danielgtaylor/huma/v2"
)

// Limits of JSON documents, besides their size.
const (
	maxDepth  = 32 // nesting of objects and lists
	maxNumber = 64 // digits of a number
)

// readSchema reads a body of JSON and validates its structure against a schema. It refuses
// documents that different parsers read differently.
func (s *Server) readSchema(r *http.Request, schema *huma.Schema, limit int64) error {
	if r.ContentLength == 0 || r.Body == nil || r.Body == http.NoBody {
		return nil
	}
	kind, params, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err != nil || kind != "application/json" || params["charset"] != "" && !strings.EqualFold(params["charset"], "utf-8") {
		return newRequestError(http.StatusUnsupportedMediaType, "Content-Type %q: must be application/json", r.Header.Get("Content-Type"))
	}
	if e := r.Header.Get("Content-Encoding"); e != "" && e != "identity" {
		return newRequestError(http.StatusUnsupportedMediaType, "Content-Encoding %q: must be absent for JSON", e)
	}
	if r.ContentLength > limit {
		return tooLarge(limit)
	}
	if b, ok := r.Body.(*requestBody); ok && s.limits.BodyTime > 0 {
		b.end = time.Now().Add(s.limits.BodyTime)
	}
	data, err := io.ReadAll(io.LimitReader(r.Body, limit+1))
	switch {
	case err != nil:
		return bodyError(err)
	case int64(len(data)) > limit:
		return tooLarge(limit)
	}
	_ = r.Body.Close() // it was read to the end
	r.Body = io.NopCloser(bytes.NewReader(data))
	r.ContentLength = int64(len(data))
	if len(data) == 0 {
		return nil
	}
	c := &jsonChecker{schemas: s.api.OpenAPI().Components.Schemas}
	return c.check(data, schema)
}

func tooLarge(limit int64) error {
	return newRequestError(http.StatusRequestEntityTooLarge, "the body is too large: the limit is %d bytes", limit)
}

// bodyError returns the error of a body that could not be read.
func bodyError(err error) error {
	if own := (*requestError)(nil); errors.As(err, &own) {
		return err
	}
	return newRequestError(http.StatusBadRequest, "the body is incomplete: %v", err)
}

// jsonChecker validates a JSON document before it is decoded.
type jsonChecker struct {
	schemas huma.Registry // nil: no schema
}

// check refuses invalid JSON, deep nesting, members that are repeated or differ from known ones by
// case only, and very long numbers: parsers differ there.
func (c *jsonChecker) check(data []byte, schema *huma.Schema) error {
	if !utf8.Valid(data) {
		return newRequestError(http.StatusBadRequest, "body: must be valid UTF-8")
	}
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.UseNumber()
	err := c.checkValue(dec, "body", schema, 0)
	if err == nil {
		if _, err := dec.Token(); !errors.Is(err, io.EOF) {
			return newRequestError(http.StatusBadRequest, "body: unexpected data after the JSON value, at byte %d", dec.InputOffset())
		}
		return nil
	}
	if own := (*requestError)(nil); errors.As(err, &own) {
		return err
	}
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return newRequestError(http.StatusBadRequest, "body: the JSON ends unexpectedly after %d bytes", len(data))
	}
	return newRequestError(http.StatusBadRequest, "body: not JSON near byte %d: %v", dec.InputOffset(), err)
}

func (c *jsonChecker) checkValue(dec *json.Decoder, at string, schema *huma.Schema, depth int) error {
	t, err := dec.Token()
	if err != nil {
		return err
	}
	if schema != nil && schema.Ref != "" {
		schema = c.schemas.SchemaFromRef(schema.Ref)
	}
	switch v := t.(type) {
	case json.Number:
		return checkNumber(at, v)
	case json.Delim:
		switch {
		case depth == maxDepth:
			return newRequestError(http.StatusBadRequest, "body: nested more than %d deep", maxDepth)
		case v == '{':
			return c.checkObject(dec, at, schema, depth+1)
		}
		return c.checkList(dec, at, schema, depth+1)
	}
	return nil
}

func checkNumber(at string, n json.Number) error {
	if len(n) > maxNumber {
		return newRequestError(http.StatusBadRequest, "%s: a number of %d digits: the limit is %d", at, len(n), maxNumber)
	}
	if _, err := n.Float64(); err != nil {
		return newRequestError(http.StatusBadRequest, "%s: the number %s is out of range", at, n)
	}
	return nil
}

func (c *jsonChecker) checkList(dec *json.Decoder, at string, schema *huma.Schema, depth int) error {
	var items *huma.Schema
	if schema != nil {
		items = schema.Items
	}
	for i := 0; dec.More(); i++ {
		if err := c.checkValue(dec, fmt.Sprintf("%s[%d]", at, i), items, depth); err != nil {
			return err
		}
	}
	_, err := dec.Token()
	return err
}

func (c *jsonChecker) checkObject(dec *json.Decoder, at string, schema *huma.Schema, depth int) error {
	seen := make(map[string]bool)
	for dec.More() {
		t, err := dec.Token()
		if err != nil {
			return err
		}
		name, _ := t.(string)
		where := at + "." + shorten(name)
		if seen[name] {
			return newRequestError(http.StatusBadRequest, "%s: is repeated", where)
		}
		seen[name] = true
		inner, right := memberSchema(schema, name)
		if right != "" {
			return newRequestError(http.StatusUnprocessableEntity, "%s: unexpected property; it is written %q", where, right)
		}
		if err := c.checkValue(dec, where, inner, depth); err != nil {
			return err
		}
	}
	_, err := dec.Token()
	return err
}

// memberSchema returns the schema of an object's member. If the name differs from a known one by
// case only, right is that one.
func memberSchema(schema *huma.Schema, name string) (inner *huma.Schema, right string) {
	if schema == nil {
		return nil, ""
	}
	if inner := schema.Properties[name]; inner != nil || len(schema.Properties) == 0 {
		return inner, ""
	}
	for known := range schema.Properties {
		if strings.EqualFold(known, name) {
			return nil, known
		}
	}
	return nil, ""
}

// shorten cuts a text to 64 bytes for a message.
func shorten(name string) string {
	const most = 64
	if len(name) <= most {
		return name
	}
	return strings.ToValidUTF8(name[:most], "") + "…"
}

// encodeJSON writes a response. Errors of writing are ignored: the client is gone.
func encodeJSON(w io.Writer, v any) error {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return err
	}
	_, _ = w.Write(buf.Bytes())
	return nil
}

// decodeJSON decodes a body, with errors in the words of the API.
func decodeJSON(data []byte, v any) error {
	err := json.Unmarshal(data, v)
	var wrong *json.UnmarshalTypeError
	if errors.As(err, &wrong) {
		return fmt.Errorf("%s: %s has the wrong type", strings.Trim("body."+wrong.Field, "."), shorten(wrong.Value))
	}
	return err
}
