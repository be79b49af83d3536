package api

import (
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"path"
	"strings"

	"github.com/atoll-sandbox/atoll/internal/wire"
)

// exportArchive answers with a tar stream. An error before its first bytes is answered as a
// problem. A later one is sent as a trailer to clients that accept trailers; for others, the
// connection is aborted.
func (s *Server) exportArchive(q *fileRequest) error {
	rc, err := q.store.Export(q.r.Context(), q.path)
	if err != nil {
		return err
	}
	first := make([]byte, 32<<10)
	n, err := io.ReadFull(rc, first)
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		return errors.Join(err, rc.Close())
	}
	name := path.Base(q.path)
	if name == "/" {
		name = "root"
	}
	h := q.w.Header()
	h.Set("Content-Type", "application/x-tar")
	h.Set("Content-Disposition", contentDisposition(name+".tar"))
	trailers := hasHeaderToken(q.r.Header, "Te", "trailers")
	if trailers {
		h.Set("Trailer", wire.FailureTrailer)
	}
	err = q.writeCompressed(first[:n], rc)
	if err = errors.Join(err, rc.Close()); err == nil || !trailers {
		return err
	}
	b, jerr := json.Marshal(s.problemOf(q.r.Context(), err).Problem)
	if jerr != nil {
		return jerr
	}
	h.Set(wire.FailureTrailer, string(b))
	return nil
}

// writeCompressed writes first and then the content of r, compressed if the client accepts that.
func (q *fileRequest) writeCompressed(first []byte, r io.Reader) error {
	q.w.Header().Set("Vary", "Accept-Encoding")
	var w io.Writer = q.w
	var zip *gzip.Writer
	if acceptsGzip(q.r.Header) {
		q.w.Header().Set("Content-Encoding", "gzip")
		zip, _ = gzip.NewWriterLevel(q.w, gzip.BestSpeed) // the level is valid
		w = zip
	}
	q.w.WriteHeader(http.StatusOK)
	_, err := w.Write(first)
	if err == nil {
		_, err = io.Copy(w, r)
	}
	if zip != nil && err == nil {
		err = zip.Close()
	}
	return err
}

// acceptsGzip reports whether a client accepts compressed responses.
func acceptsGzip(h http.Header) bool {
	for _, v := range h.Values("Accept-Encoding") {
		for part := range strings.SplitSeq(v, ",") {
			name, q, _ := strings.Cut(strings.TrimSpace(part), ";")
			if strings.EqualFold(strings.TrimSpace(name), "gzip") {
				return strings.Trim(strings.TrimPrefix(strings.TrimSpace(q), "q="), "0.") != "" || q == ""
			}
		}
	}
	return false
}

// importArchive unpacks the request's body.
func (s *Server) importArchive(q *fileRequest) error {
	var r io.Reader = q.r.Body
	switch e := strings.ToLower(q.r.Header.Get("Content-Encoding")); e {
	case "", "identity":
	case "gzip":
		zip, err := gzip.NewReader(r)
		if err != nil {
			return newRequestError(http.StatusUnprocessableEntity, "the body is not compressed with gzip: %v", err)
		}
		r = zip
	default:
		return &requestError{
			status: http.StatusUnsupportedMediaType, kind: "invalid", header: http.Header{"Accept-Encoding": {"gzip"}},
			detail: fmt.Sprintf("Content-Encoding %q: must be gzip or absent", shorten(e)),
		}
	}
	return q.writeDone(q.store.Import(q.r.Context(), q.path, r))
}
