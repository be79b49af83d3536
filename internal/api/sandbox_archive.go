package api

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"reflect"

	"github.com/danielgtaylor/huma/v2"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/fleet"
	"github.com/atoll-sandbox/atoll/internal/wire"
)

// sandboxArchiveType is the media type of archives of sandboxes.
const sandboxArchiveType = "application/zstd"

// archiveSandbox archives a sandbox of the fleet.
func archiveSandbox(ctx context.Context, sb atoll.Sandbox) error {
	s, ok := sb.(*fleet.Sandbox)
	if !ok {
		return atoll.ErrUnsupported
	}
	return s.Archive(ctx)
}

// registerArchiveOrphans registers the objects of the archive storage that the registry does not know.
func (s *Server) registerArchiveOrphans(api huma.API) {
	for _, o := range []struct {
		id, method, summary string
		remove              bool
	}{
		{"list-archive-orphans", http.MethodGet, "List objects in the archive storage that the registry does not know", false},
		{"remove-archive-orphans", http.MethodDelete, "Remove objects in the archive storage that the registry does not know", true},
	} {
		registerJSON(s, api, huma.Operation{
			OperationID: o.id, Method: o.method, Path: "/v1/archive/orphans", Tags: []string{"sandboxes"}, Summary: o.summary, Errors: []int{501},
			Description: "Only those older than a day. Never remove them with a copy of a registry whose original is in use: it knows others.",
		}, func(ctx context.Context, a *fleet.Account, _ *struct{}) (*reply[wire.List[atoll.ArchiveOrphan]], error) {
			return listReply(a.ArchiveOrphans(ctx, o.remove))
		})
	}
}

// registerSandboxArchives registers the export and import of sandboxes.
func (s *Server) registerSandboxArchives(api huma.API) {
	binary := map[string]*huma.MediaType{sandboxArchiveType: {Schema: &huma.Schema{Type: "string", Format: "binary"}}}
	s.registerRaw(api, huma.Operation{
		OperationID: "export-sandbox", Method: http.MethodGet, Path: "/v1/sandboxes/{id}/export", Tags: []string{"sandboxes"},
		Summary: "Export a sandbox as an archive, from which another host can create it again",
		Description: "The archive has the sandbox's files and its configuration, but no mounts, workspaces and secrets. " +
			"A stream that fails ends with the trailer " + wire.FailureTrailer + ", a problem, if the request has TE: trailers.",
		Parameters: append(pathParams("id"), queryParam("snapshot", "string", "The id or name of a snapshot; by default the files are exported as they are now.")),
		Responses:  map[string]*huma.Response{"200": {Description: "OK", Content: binary}}, Errors: []int{404, 409, 501, 507},
	}, func(w http.ResponseWriter, r *http.Request, a *fleet.Account) error {
		q := newQuery(r.URL.Query())
		o := fleet.ExportOptions{Snapshot: q.readText("snapshot"), Program: s.opts.Version}
		if err := q.checkErrors(); err != nil {
			return err
		}
		sb, err := a.Open(r.Context(), r.PathValue("id"))
		if err != nil {
			return err
		}
		rc, err := sb.ExportArchive(r.Context(), o)
		if err != nil {
			return err
		}
		return s.sendSandboxArchive(w, r, rc, sb.ID()+".atoll")
	})
	s.registerArchiveOrphans(api)
	schemas := api.OpenAPI().Components.Schemas
	s.registerRaw(api, huma.Operation{
		OperationID: "import-sandbox", Method: http.MethodPost, Path: "/v1/sandboxes/import", Tags: []string{"sandboxes"}, DefaultStatus: http.StatusCreated,
		Summary:     "Create a sandbox from an archive",
		Description: "It is running when the response is sent. If the import fails, nothing is left. An archive can't ask for mounts, secrets, labels of atoll or the network of the host.",
		Parameters: []*huma.Param{
			queryParam("name", "string", "The name of the sandbox; by default the name in the archive."),
			queryParam("driver", "string", "The driver; by default that in the archive. Another one gets only the files of the working directory."),
		},
		RequestBody: &huma.RequestBody{Required: true, Content: binary},
		Responses:   map[string]*huma.Response{"201": {Description: "Created", Content: map[string]*huma.MediaType{"application/json": {Schema: schemas.Schema(reflect.TypeFor[atoll.ImportedSandbox](), true, "")}}}},
		Errors:      []int{404, 409, 501, 507},
	}, func(w http.ResponseWriter, r *http.Request, a *fleet.Account) error {
		q := newQuery(r.URL.Query())
		o := fleet.ImportOptions{Name: q.readText("name"), Driver: q.readText("driver")}
		if err := q.checkErrors(); err != nil {
			return err
		}
		sb, imported, err := a.ImportArchive(r.Context(), r.Body, o)
		if err != nil {
			return err
		}
		if imported.Info, err = sb.Info(r.Context()); err != nil {
			return err
		}
		w.Header().Set("Location", "/v1/sandboxes/"+sb.ID())
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusCreated)
		return sendJSON(w, imported)
	})
}

// sendSandboxArchive answers with an archive, which it closes. An error before its first bytes is
// answered as a problem; for later ones see exportArchive.
func (s *Server) sendSandboxArchive(w http.ResponseWriter, r *http.Request, rc io.ReadCloser, name string) error {
	first := make([]byte, 32<<10)
	n, err := io.ReadFull(rc, first)
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		return errors.Join(err, rc.Close())
	}
	h := w.Header()
	h.Set("Content-Type", sandboxArchiveType)
	h.Set("Content-Disposition", contentDisposition(name))
	trailers := hasHeaderToken(r.Header, "Te", "trailers")
	if trailers {
		h.Set("Trailer", wire.FailureTrailer)
	}
	w.WriteHeader(http.StatusOK)
	if _, err = w.Write(first[:n]); err == nil {
		_, err = io.Copy(w, rc)
	}
	if err = errors.Join(err, rc.Close()); err == nil || !trailers {
		return err
	}
	b, jerr := json.Marshal(s.problemOf(r.Context(), err).Problem)
	if jerr != nil {
		return jerr
	}
	h.Set(wire.FailureTrailer, string(b))
	return nil
}
