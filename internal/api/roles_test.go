package api_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/atoll-sandbox/atoll"
)

// TestRoles sends every route but those of unprobedRoles of the server's document with a token of every role, and compares the lowest role
// that is not refused with the table: a new route must be added to it.
func TestRoles(t *testing.T) {
	w := newTown(t)
	roles := []atoll.Role{atoll.RoleViewer, atoll.RoleUser, atoll.RoleOperator, atoll.RoleAdmin}
	team := atoll.Owner{App: "roles", User: "team"}
	secrets := make(map[atoll.Role]string)
	for _, r := range roles {
		tok, err := w.admin.CreateToken(t.Context(), atoll.Token{Owner: team, Role: r})
		if err != nil {
			t.Fatal(err)
		}
		secrets[r] = tok.Secret
	}
	create := func() { // what the routes are about, and what a route before may have removed
		for target, body := range map[string]string{"/v1/sandboxes": `{"name":"box","lifecycle":{"policy":"persistent"}}`, "/v1/workspaces": `{"name":"space"}`} {
			if a := w.send("POST", target, secrets[atoll.RoleUser], []byte(body)); a.status != http.StatusCreated && a.status != http.StatusConflict {
				t.Fatalf("POST %s: %d %s", target, a.status, a.body)
			}
		}
	}
	seen := make(map[string]bool)
	body := func(o operation) []byte {
		if text, ok := roleBodies[o.String()]; ok {
			return []byte(text)
		}
		return []byte(o.body())
	}
	for _, o := range w.operations() {
		lowest, id := "nobody", "box"
		if role, ok := unprobedRoles[o.String()]; ok {
			seen[o.String()] = true
			if role == "" {
				t.Errorf("%s: no role", o)
			}
			continue
		}
		create()
		for _, r := range roles {
			target := o.fill(map[string]string{"id": id, "app": "roles", "user": "someone", "name": "space", "snapshot": "s111111111111", "process": "s222222222222", "delivery": "all", "terminal": "none"})
			if o.path == "/v1/events" {
				target += "?follow=false"
			}
			if o.String() == "DELETE /v1/images" {
				target += "?ref=none"
			}
			a := w.send(o.method, target, secrets[r], body(o))
			if a.status == http.StatusUnauthorized {
				t.Fatalf("%s as %s: %d %s", o, r, a.status, a.body)
			}
			if a.status != http.StatusForbidden {
				lowest = string(r)
				break
			}
		}
		seen[o.String()] = true
		switch want := routeRoles[o.String()]; {
		case want == "":
			t.Errorf("%s: no role in the table; the server lets %s", o, lowest)
		case string(want) != lowest:
			t.Errorf("%s: the lowest role is %s, want %s", o, lowest, want)
		}
	}
	for route := range unprobedRoles {
		if !seen[route] {
			t.Errorf("%s: in the table unprobedRoles, but no route of the server", route)
		}
	}
	for route := range routeRoles {
		if !seen[route] {
			t.Errorf("%s: in the table, but no route of the server", route)
		}
	}
	w.unharmed()
}

// Every role has only rights of its own: what it may not do by a parameter, and with the objects of others.
func TestRolesOfOtherOwners(t *testing.T) {
	w := newTown(t)
	secret := func(r atoll.Role) string {
		tok, err := w.admin.CreateToken(t.Context(), atoll.Token{Owner: atoll.Owner{App: "roles", User: string(r)}, Role: r})
		if err != nil {
			t.Fatal(err)
		}
		return tok.Secret
	}
	viewer, user, operator, admin := secret(atoll.RoleViewer), secret(atoll.RoleUser), secret(atoll.RoleOperator), secret(atoll.RoleAdmin)
	for _, k := range []struct {
		law, secret, method, target, body string
		want                              int
	}{
		{"ViewerListsAll", viewer, "GET", "/v1/sandboxes?all_owners=true", "", 403},
		{"UserListsAll", user, "GET", "/v1/sandboxes?all_owners=true", "", 403},
		{"OperatorListsAll", operator, "GET", "/v1/sandboxes?all_owners=true", "", 200},
		{"UserAuditsAll", user, "GET", "/v1/audit?all_owners=true", "", 403},
		{"OperatorAuditsAll", operator, "GET", "/v1/audit?all_owners=true", "", 200},
		{"OperatorFollowsAll", operator, "GET", "/v1/events?all_owners=true&follow=false", "", 200},
		{"OperatorSeesMetrics", operator, "GET", "/metrics", "", 200},
		{"UserSeesMetrics", user, "GET", "/metrics", "", 403},
		{"OperatorOpensOthers", operator, "GET", "/v1/sandboxes/" + w.box, "", 404},
		{"OperatorReadsOthers", operator, "GET", "/v1/sandboxes/" + w.box + "/files?path=/secret.txt", "", 404},
		{"OperatorRemovesOthers", operator, "DELETE", "/v1/sandboxes/" + w.box, "", 404},
		{"OperatorRevokesOthers", operator, "DELETE", "/v1/tokens/" + w.token, "", 404},
		{"OperatorChangesOthersWebhook", operator, "DELETE", "/v1/webhooks/" + w.hook, "", 404},
		{"AdminOpensOthers", admin, "GET", "/v1/sandboxes/" + w.box, "", 200},
		{"OperatorMakesAdmin", operator, "POST", "/v1/tokens", `{"role":"admin"}`, 403},
		{"OperatorMakesOthers", operator, "POST", "/v1/tokens", `{"role":"viewer","owner":{"app":"app","user":"alice"}}`, 403},
		{"OperatorMakesHost", operator, "POST", "/v1/tokens", `{"scopes":["host"]}`, 403},
		{"OperatorMakesOperator", operator, "POST", "/v1/tokens", `{"role":"operator"}`, 201},
		{"UserMakesOperator", user, "POST", "/v1/tokens", `{"role":"operator"}`, 403},
		{"UserMakesViewer", user, "POST", "/v1/tokens", `{"role":"viewer"}`, 201},
		{"RoleAndScopes", admin, "POST", "/v1/tokens", `{"role":"viewer","scopes":["read"]}`, 422},
		{"UnknownRole", admin, "POST", "/v1/tokens", `{"role":"root"}`, 422},
		{"UserHooksAll", user, "POST", "/v1/webhooks", `{"url":"https://hooks.test/","all_owners":true}`, 403},
		{"OperatorMountsByPool", operator, "PUT", "/v1/pools/root", `{"size":1,"config":{"mounts":[{"source":"/","target":"/host"}]}}`, 403},
		{"OperatorOpensNetworkByPool", operator, "PUT", "/v1/pools/open", `{"size":1,"config":{"network":{"mode":"open"}}}`, 403},
		{"OperatorReachesHostByPool", operator, "PUT", "/v1/pools/near", `{"size":1,"config":{"network":{"allow":["127.0.0.1:22"]}}}`, 403},
		{"OperatorBuildsOnHostNetwork", operator, "POST", "/v1/images/build?ref=x&network=host", "", 403},
		{"OperatorHooksAll", operator, "POST", "/v1/webhooks", `{"url":"https://hooks.test/","all_owners":true}`, 201},
	} {
		if a := w.send(k.method, k.target, k.secret, []byte(k.body)); a.status != k.want || strings.Contains(a.body, "treasure") {
			t.Errorf("%s: %d %s, want %d", k.law, a.status, a.body, k.want)
		}
	}
	w.unharmed()
}

// routeRoles has the lowest role that may call each route. Each role may do what those before it may.
var routeRoles = map[string]atoll.Role{
	"GET /v1/agents":                                         atoll.RoleViewer,
	"GET /v1/assistants":                                     atoll.RoleViewer,
	"GET /v1/audit":                                          atoll.RoleViewer,
	"GET /v1/disks":                                          atoll.RoleViewer,
	"GET /v1/events":                                         atoll.RoleViewer,
	"GET /v1/images":                                         atoll.RoleViewer,
	"GET /v1/info":                                           atoll.RoleViewer,
	"GET /v1/pools":                                          atoll.RoleViewer,
	"GET /v1/quota":                                          atoll.RoleViewer,
	"GET /v1/quotas":                                         atoll.RoleOperator,
	"GET /v1/routes":                                         atoll.RoleViewer,
	"GET /v1/routes/links":                                   atoll.RoleViewer,
	"GET /v1/sandboxes":                                      atoll.RoleViewer,
	"GET /v1/sandboxes/{id}":                                 atoll.RoleViewer,
	"GET /v1/sandboxes/{id}/archive":                         atoll.RoleViewer,
	"GET /v1/sandboxes/{id}/export":                          atoll.RoleUser,
	"GET /v1/sandboxes/{id}/files":                           atoll.RoleViewer,
	"GET /v1/sandboxes/{id}/files/info":                      atoll.RoleViewer,
	"GET /v1/sandboxes/{id}/files/list":                      atoll.RoleViewer,
	"GET /v1/sandboxes/{id}/history":                         atoll.RoleViewer,
	"GET /v1/sandboxes/{id}/network":                         atoll.RoleViewer,
	"GET /v1/sandboxes/{id}/network/connections":             atoll.RoleViewer,
	"GET /v1/sandboxes/{id}/network/test":                    atoll.RoleViewer,
	"GET /v1/sandboxes/{id}/ports":                           atoll.RoleViewer,
	"GET /v1/sandboxes/{id}/processes":                       atoll.RoleViewer,
	"GET /v1/sandboxes/{id}/processes/{process}":             atoll.RoleViewer,
	"GET /v1/sandboxes/{id}/processes/{process}/output":      atoll.RoleViewer,
	"GET /v1/sandboxes/{id}/snapshots":                       atoll.RoleViewer,
	"GET /v1/sandboxes/{id}/snapshots/{snapshot}/difference": atoll.RoleUser,
	"GET /v1/sandboxes/{id}/stats":                           atoll.RoleViewer,
	"GET /v1/sandboxes/{id}/terminals":                       atoll.RoleViewer,
	"GET /v1/sandboxes/{id}/terminals/{terminal}/screen":     atoll.RoleViewer,
	"GET /v1/sessions":                                       atoll.RoleViewer,
	"GET /v1/sessions/{id}":                                  atoll.RoleViewer,
	"GET /v1/snapshots":                                      atoll.RoleViewer,
	"GET /v1/tokens":                                         atoll.RoleViewer,
	"GET /v1/turns":                                          atoll.RoleViewer,
	"GET /v1/turns/{id}":                                     atoll.RoleViewer,
	"GET /v1/turns/{id}/events":                              atoll.RoleViewer,
	"GET /v1/webhooks":                                       atoll.RoleViewer,
	"GET /v1/webhooks/{id}":                                  atoll.RoleViewer,
	"GET /v1/webhooks/{id}/deliveries":                       atoll.RoleViewer,
	"GET /v1/workspaces":                                     atoll.RoleViewer,
	"GET /v1/workspaces/{name}":                              atoll.RoleViewer,
	"GET /v1/workspaces/{name}/archive":                      atoll.RoleViewer,
	"GET /v1/workspaces/{name}/files":                        atoll.RoleViewer,
	"GET /v1/workspaces/{name}/files/info":                   atoll.RoleViewer,
	"GET /v1/workspaces/{name}/files/list":                   atoll.RoleViewer,
	"DELETE /v1/disks/{name}":                                atoll.RoleUser,
	"POST /v1/routes/links":                                  atoll.RoleUser,
	"POST /v1/sandboxes/{id}/identity-token":                 atoll.RoleUser,
	"DELETE /v1/routes/links/{id}":                           atoll.RoleUser,
	"POST /v1/sandboxes":                                     atoll.RoleUser,
	"POST /v1/sandboxes/import":                              atoll.RoleUser,
	"DELETE /v1/sandboxes/{id}":                              atoll.RoleUser,
	"PATCH /v1/sandboxes/{id}":                               atoll.RoleUser,
	"PUT /v1/sandboxes/{id}/archive":                         atoll.RoleUser,
	"GET /v1/sandboxes/{id}/usage":                           atoll.RoleViewer,
	"GET /v1/sandboxes/{id}/project":                         atoll.RoleAdmin,
	"POST /v1/sandboxes/{id}/project":                        atoll.RoleAdmin,
	"GET /v1/sandboxes/{id}/changes":                         atoll.RoleUser,
	"GET /v1/sandboxes/{id}/changes/file":                    atoll.RoleUser,
	"POST /v1/sandboxes/{id}/exec":                           atoll.RoleUser,
	"DELETE /v1/sandboxes/{id}/files":                        atoll.RoleUser,
	"PUT /v1/sandboxes/{id}/files":                           atoll.RoleUser,
	"POST /v1/sandboxes/{id}/files/directory":                atoll.RoleUser,
	"POST /v1/sandboxes/{id}/fork":                           atoll.RoleUser,
	"PATCH /v1/sandboxes/{id}/network":                       atoll.RoleUser,
	"POST /v1/sandboxes/{id}/pause":                          atoll.RoleUser,
	"POST /v1/sandboxes/{id}/processes":                      atoll.RoleUser,
	"DELETE /v1/sandboxes/{id}/processes/{process}":          atoll.RoleUser,
	"POST /v1/sandboxes/{id}/processes/{process}/signal":     atoll.RoleUser,
	"POST /v1/sandboxes/{id}/restore":                        atoll.RoleUser,
	"POST /v1/sandboxes/{id}/resume":                         atoll.RoleUser,
	"POST /v1/sandboxes/{id}/snapshots":                      atoll.RoleUser,
	"DELETE /v1/sandboxes/{id}/snapshots/{snapshot}":         atoll.RoleUser,
	"POST /v1/sandboxes/{id}/start":                          atoll.RoleUser,
	"POST /v1/sandboxes/{id}/archive":                        atoll.RoleUser,
	"GET /v1/archive/orphans":                                atoll.RoleOperator,
	"DELETE /v1/archive/orphans":                             atoll.RoleOperator,
	"POST /v1/sandboxes/{id}/stop":                           atoll.RoleUser,
	"POST /v1/sandboxes/{id}/terminals":                      atoll.RoleUser,
	"DELETE /v1/sandboxes/{id}/terminals/{terminal}":         atoll.RoleUser,
	"POST /v1/sandboxes/{id}/terminals/{terminal}/input":     atoll.RoleUser,
	"POST /v1/tokens":                                        atoll.RoleUser,
	"DELETE /v1/tokens/{id}":                                 atoll.RoleUser,
	"POST /v1/turns":                                         atoll.RoleUser,
	"DELETE /v1/turns/{id}":                                  atoll.RoleUser,
	"POST /v1/turns/{id}/decisions":                          atoll.RoleUser,
	"POST /v1/turns/{id}/interrupt":                          atoll.RoleUser,
	"GET /v1/sessions/{id}/messages":                         atoll.RoleViewer,
	"POST /v1/turns/{id}/tool-answers":                       atoll.RoleUser,
	"POST /v1/turns/{id}/messages":                           atoll.RoleUser,
	"POST /v1/turns/{id}/retry":                              atoll.RoleUser,
	"POST /v1/webhooks":                                      atoll.RoleUser,
	"DELETE /v1/webhooks/{id}":                               atoll.RoleUser,
	"PATCH /v1/webhooks/{id}":                                atoll.RoleUser,
	"POST /v1/webhooks/{id}/deliveries/{delivery}/redeliver": atoll.RoleUser,
	"POST /v1/workspaces":                                    atoll.RoleUser,
	"POST /v1/workspaces/prune":                              atoll.RoleUser,
	"DELETE /v1/workspaces/{name}":                           atoll.RoleUser,
	"PUT /v1/workspaces/{name}/archive":                      atoll.RoleUser,
	"DELETE /v1/workspaces/{name}/files":                     atoll.RoleUser,
	"PUT /v1/workspaces/{name}/files":                        atoll.RoleUser,
	"POST /v1/workspaces/{name}/files/directory":             atoll.RoleUser,
	"DELETE /v1/images":                                      atoll.RoleOperator,
	"POST /v1/images/build":                                  atoll.RoleOperator,
	"POST /v1/images/import":                                 atoll.RoleOperator,
	"POST /v1/images/pull":                                   atoll.RoleOperator,
	"DELETE /v1/pools/{name}":                                atoll.RoleOperator,
	"PUT /v1/pools/{name}":                                   atoll.RoleOperator,
	"PUT /v1/quotas/{app}/{user}":                            atoll.RoleOperator,
}

// roleBodies are the bodies of routes that check them before the right.
var roleBodies = map[string]string{
	"POST /v1/tokens":                        `{"scopes":["read"]}`,
	"POST /v1/workspaces":                    `{"name":"other"}`,
	"POST /v1/sandboxes/{id}/identity-token": `{"audience":"x"}`,
	"POST /v1/routes/links":                  `{"sandbox":"box","expires":"` + time.Now().Add(time.Hour).UTC().Format(time.RFC3339) + `"}`,
}

// unprobedRoles are the lowest roles of routes that answer without end, or after an upgrade and check the right in
// the stream, and of one that the virtual driver does not support.
var unprobedRoles = map[string]atoll.Role{
	"PUT /v1/sandboxes/{id}/network":                     atoll.RoleUser,
	"GET /v1/sandboxes/{id}/notices":                     atoll.RoleViewer,
	"GET /v1/sandboxes/{id}/files/watch":                 atoll.RoleViewer,
	"GET /v1/sandboxes/{id}/exec":                        atoll.RoleUser,
	"GET /v1/sandboxes/{id}/dial":                        atoll.RoleUser,
	"GET /v1/sandboxes/{id}/listen":                      atoll.RoleUser,
	"GET /v1/sandboxes/{id}/processes/{process}/attach":  atoll.RoleUser,
	"GET /v1/sandboxes/{id}/terminals/{terminal}/attach": atoll.RoleViewer,
}
