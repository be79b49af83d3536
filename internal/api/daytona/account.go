package daytona

import (
	"crypto/sha256"
	"fmt"
	"net/http"
	"time"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/fleet"
)

// organizationID returns the organization of an owner: a UUID that is made of its name.
func organizationID(o atoll.Owner) string {
	b := sha256.Sum256([]byte("organization " + o.String()))
	b[6], b[8] = b[6]&0x0f|0x80, b[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:16])
}

// registerAccount registers the routes about the caller and the server.
func (s *Server) registerAccount() {
	s.addAPI("GET", "/config", func(c *call) error {
		return c.writeJSON(http.StatusOK, map[string]any{
			"version": version, "oidc": map[string]string{"issuer": "", "clientId": "", "audience": ""}, "linkedAccountsEnabled": false, "announcements": map[string]any{},
			"proxyTemplateUrl": "", "proxyToolboxUrl": c.baseURL() + "/toolbox", "defaultSnapshot": defaultSnapshot, "dashboardUrl": c.baseURL(),
			"maxAutoArchiveInterval": maxMinutes, "maintananceMode": false, "environment": "atoll",
		})
	})
	s.addAPI("GET", "/health", func(c *call) error { return c.writeJSON(http.StatusOK, map[string]string{"status": "ok"}) })
	s.addAPI("GET", "/organizations", func(c *call) error {
		return c.writeJSON(http.StatusOK, []any{describeOrganization(c.a)})
	})
	s.addAPI("GET", "/organizations/{id}", func(c *call) error {
		if c.r.PathValue("id") != organizationID(c.a.Caller().Owner) {
			return &Error{Status: http.StatusNotFound, Message: "Organization with ID " + shortenText(c.r.PathValue("id")) + " not found"}
		}
		return c.writeJSON(http.StatusOK, describeOrganization(c.a))
	})
	s.addAPI("GET", "/users/me", func(c *call) error {
		o := c.a.Caller().Owner
		return c.writeJSON(http.StatusOK, map[string]any{"id": o.String(), "name": o.User, "email": "", "publicKeys": []any{}, "createdAt": timeText(time.Unix(0, 0))})
	})
	s.addAPI("GET", "/api-keys/current", func(c *call) error {
		return c.writeJSON(http.StatusOK, map[string]any{
			"name": c.a.Caller().Token, "value": "dtn_***", "createdAt": timeText(time.Unix(0, 0)), "permissions": []string{"write:sandboxes", "delete:sandboxes"},
			"lastUsedAt": nil, "expiresAt": nil, "userId": c.a.Caller().Owner.String(),
		})
	})
	regions := func(c *call) error {
		return c.writeJSON(http.StatusOK, []any{map[string]any{"id": "local", "name": "local", "organizationId": nil, "regionType": "shared", "createdAt": timeText(time.Unix(0, 0)), "updatedAt": timeText(time.Unix(0, 0))}})
	}
	s.addAPI("GET", "/regions", regions)
	s.addAPI("GET", "/shared-regions", regions)
}

// describeOrganization describes the owner of a key as an organization.
func describeOrganization(a *fleet.Account) map[string]any {
	o := a.Caller().Owner
	at := timeText(time.Unix(0, 0))
	return map[string]any{
		"id": organizationID(o), "name": o.String(), "createdBy": o.String(), "personal": true, "createdAt": at, "updatedAt": at, "suspended": false,
		"suspendedAt": at, "suspensionReason": "", "suspendedUntil": at, "suspensionCleanupGracePeriodHours": 0, "maxCpuPerSandbox": 0, "maxMemoryPerSandbox": 0,
		"maxDiskPerSandbox": 0, "secretQuota": 0, "maxSecretsPerSandbox": 0, "snapshotDeactivationTimeoutMinutes": 0, "sandboxLimitedNetworkEgress": false,
		"previewWarningEnabled": false, "ssoEnabled": false, "defaultRegionId": "local", "authenticatedRateLimit": nil, "sandboxCreateRateLimit": nil,
		"sandboxLifecycleRateLimit": nil, "experimentalConfig": map[string]any{}, "otelConfig": nil, "authenticatedRateLimitTtlSeconds": nil,
		"sandboxCreateRateLimitTtlSeconds": nil, "sandboxLifecycleRateLimitTtlSeconds": nil,
	}
}

// registerUnsupported registers routes that answer 501 with a reason.
func (s *Server) registerUnsupported() {
	refuse := func(format string) func(c *call) error {
		return func(*call) error { return unsupportedError("%s", format) }
	}
	for _, p := range []string{"GET /api/secret", "POST /api/secret", "GET /api/secret/paginated", "GET /api/secret/{secret}", "PATCH /api/secret/{secret}", "DELETE /api/secret/{secret}"} {
		add(s.api, p, refuse("stored secrets"))
	}
	for _, p := range []string{"GET /api/warm-pools", "POST /api/warm-pools", "PATCH /api/warm-pools/{pool}", "DELETE /api/warm-pools/{pool}"} {
		add(s.api, p, refuse("warm pools of clients"))
	}
	add(s.api, "GET /api/object-storage/push-access", refuse("files of the client in an image"))
	add(s.api, "GET /api/sandbox/ssh-access/validate", refuse("access by SSH tokens"))
	inSandbox := func(what string) func(*call, *fleet.Sandbox) error {
		return func(*call, *fleet.Sandbox) error { return unsupportedError("%s", what) }
	}
	s.addSandbox("PUT", "/secrets", inSandbox("stored secrets"))
	s.addSandbox("GET", "/secrets", inSandbox("stored secrets"))
	s.addSandbox("POST", "/ssh-access", inSandbox("access by SSH tokens ('atoll ssh' connects)"))
	s.addSandbox("DELETE", "/ssh-access", inSandbox("access by SSH tokens ('atoll ssh' connects)"))
	for _, kind := range []string{"metrics", "logs", "traces", "traces/{trace}"} {
		s.addSandbox("GET", "/telemetry/"+kind, inSandbox("telemetry over time"))
	}
	s.addToolbox("POST", "/env", inSandbox("a change of the environment of a sandbox that exists"))
	for _, p := range []string{"start", "stop", "did-open", "did-close", "completions"} {
		s.addToolbox("POST", "/lsp/"+p, inSandbox("language servers"))
	}
	for _, p := range []string{"document-symbols", "workspacesymbols"} {
		s.addToolbox("GET", "/lsp/"+p, inSandbox("language servers"))
	}
	for _, m := range []string{"GET", "POST", "DELETE", "PUT"} {
		s.addToolbox(m, "/computeruse/{rest...}", inSandbox("computer use"))
	}
}
