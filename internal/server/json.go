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

	"github.com/danielgtaylor/huma/v2"
)

// Limits of JSON documents, besides their size.
const (
	maxDepth  = 32 // of objects and lists in each other
	maxNumber = 64 // digits
)

// readSchema reads a body that is to be JSON of a schema, and refuses one that
// says different things to different readers: how its members are written is
// checked too.
func (s *Server) readSchema(r *http.Request, schema *huma.Schema, limit int64) error {
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
	c := &checker{schemas: s.api.OpenAPI().Components.Schemas}
	return c.check(data, schema)
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

// checker reads a JSON document before anybody else does.
type checker struct {
	schemas huma.Registry // may be nil where there is no schema
}

// check refuses what is no JSON, nested too deeply, names a member twice or in
// letters of another size, or has numbers without end: readers differ there.
func (c *checker) check(data []byte, schema *huma.Schema) error {
	if !utf8.Valid(data) {
		return refuse(http.StatusBadRequest, "body: must be valid UTF-8")
	}
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.UseNumber()
	err := c.value(dec, "body", schema, 0)
	if err == nil {
		if _, err := dec.Token(); !errors.Is(err, io.EOF) {
			return refuse(http.StatusBadRequest, "body: there is more after the JSON value, at byte %d", dec.InputOffset())
		}
		return nil
	}
	if own := (*refusal)(nil); errors.As(err, &own) {
		return err
	}
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return refuse(http.StatusBadRequest, "body: the JSON breaks off after %d bytes", len(data))
	}
	return refuse(http.StatusBadRequest, "body: not JSON near byte %d: %v", dec.InputOffset(), err)
}

func (c *checker) value(dec *json.Decoder, at string, schema *huma.Schema, depth int) error {
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
			return refuse(http.StatusBadRequest, "body: nested more than %d deep", maxDepth)
		case v == '{':
			return c.object(dec, at, schema, depth+1)
		}
		return c.list(dec, at, schema, depth+1)
	}
	return nil
}

func checkNumber(at string, n json.Number) error {
	if len(n) > maxNumber {
		return refuse(http.StatusBadRequest, "%s: a number of %d digits: at most %d are taken", at, len(n), maxNumber)
	}
	if _, err := n.Float64(); err != nil {
		return refuse(http.StatusBadRequest, "%s: the number %s is out of range", at, n)
	}
	return nil
}

func (c *checker) list(dec *json.Decoder, at string, schema *huma.Schema, depth int) error {
	var items *huma.Schema
	if schema != nil {
		items = schema.Items
	}
	for i := 0; dec.More(); i++ {
		if err := c.value(dec, fmt.Sprintf("%s[%d]", at, i), items, depth); err != nil {
			return err
		}
	}
	_, err := dec.Token()
	return err
}

func (c *checker) object(dec *json.Decoder, at string, schema *huma.Schema, depth int) error {
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
		inner, right := member(schema, name)
		if right != "" {
			return refuse(http.StatusUnprocessableEntity, "%s: unexpected property; it is written %q", where, right)
		}
		if err := c.value(dec, where, inner, depth); err != nil {
			return err
		}
	}
	_, err := dec.Token()
	return err
}

// member returns the schema of an object's member, and, where the name is one
// only in letters of another size, how it is written.
func member(schema *huma.Schema, name string) (inner *huma.Schema, right string) {
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
