package api

import (
	"bytes"
	"encoding/json"
	"errors"
	"net/http"
	"strconv"

	"github.com/danielgtaylor/huma/v2"
)

// writeJSON answers with v.
func writeJSON(w http.ResponseWriter, status int, v any) error {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	return encodeJSON(w, v)
}

// sendJSON answers with v and its length.
func sendJSON(w http.ResponseWriter, v any) error {
	b := bufferPool.Get().(*bytes.Buffer)
	defer putBuffer(b)
	if err := encodeJSON(b, v); err != nil {
		return err
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(b.Len()))
	_, _ = w.Write(b.Bytes()) // write errors mean that the client is gone
	return nil
}

// readBody reads a required JSON body.
func (s *Server) readBody(r *http.Request, schema *huma.Schema, v any) error {
	if err := s.readSchema(r, schema, s.limits.Body); err != nil {
		return err
	}
	b := bufferPool.Get().(*bytes.Buffer)
	defer putBuffer(b)
	if _, err := b.ReadFrom(r.Body); err != nil {
		return bodyError(err)
	}
	if b.Len() == 0 {
		return newRequestError(http.StatusBadRequest, "body: is empty; it must be JSON")
	}
	return decodeStrict(b.Bytes(), v)
}

// decodeStrict decodes JSON without unknown members.
func decodeStrict(data []byte, v any) error {
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	err := dec.Decode(v)
	var wrong *json.UnmarshalTypeError
	switch {
	case errors.As(err, &wrong):
		return invalidField(wrong.Field, "%s has the wrong type", shorten(wrong.Value))
	case err != nil:
		return newRequestError(http.StatusUnprocessableEntity, "body: %s", shorten(err.Error()))
	}
	return nil
}
