package config

import (
	"errors"

	"github.com/robfig/cron/v3"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/egress/upstream"
	"github.com/atoll-sandbox/atoll/internal/fleet"
	"github.com/atoll-sandbox/atoll/internal/fleet/identity"
	"github.com/atoll-sandbox/atoll/internal/fleet/issuer"
	"github.com/atoll-sandbox/atoll/internal/fleet/objectstore"
	"github.com/atoll-sandbox/atoll/internal/fleet/secretref"
	"github.com/atoll-sandbox/atoll/internal/preview/proxy"
	"github.com/atoll-sandbox/atoll/internal/project"
	"github.com/atoll-sandbox/atoll/internal/project/projectfile"
)

// form describes the syntax of a value.
type form struct {
	parse func(text string) (any, error)
	List  bool
	tree  bool // keys and values of its own, in a file as YAML, elsewhere as JSON
	space bool // in the environment, a list is separated by blanks, since what is in it may hold commas
}

// forms of values.
var (
	formText      = form{parse: func(s string) (any, error) { return s, nil }}
	formName      = form{parse: func(s string) (any, error) { return s, atoll.CheckName(s) }}
	formPath      = form{parse: func(s string) (any, error) { return ParsePath(s) }}
	formHost      = form{parse: func(s string) (any, error) { return ParseHost(s) }}
	formRegistry  = form{parse: func(s string) (any, error) { return s, fleet.CheckRegistry(s) }}
	formToken     = form{parse: func(s string) (any, error) { return ParseToken(s) }}
	formSize      = form{parse: func(s string) (any, error) { return ParseSize(s) }}
	formDuration  = form{parse: func(s string) (any, error) { return ParseDuration(s) }}
	formWait      = form{parse: func(s string) (any, error) { return parseWait(s) }}
	formRetention = form{parse: func(s string) (any, error) { return parseRetention(s) }}
	formLogLevel  = form{parse: func(s string) (any, error) { return parseLogLevel(s) }}
	formCount     = form{parse: func(s string) (any, error) { return ParseCount(s) }}
	formAmount    = form{parse: func(s string) (any, error) { return parseAmount(s) }}
	formNetwork   = form{parse: func(s string) (any, error) {
		return ParseOneOf(s, atoll.NetworkNone, atoll.NetworkNAT, atoll.NetworkBridge, atoll.NetworkOpen)
	}}
	formPolicy = form{parse: func(s string) (any, error) {
		return ParseOneOf(s, atoll.PolicyOneshot, atoll.PolicySession, atoll.PolicyLongrunning, atoll.PolicyPersistent)
	}}
	formExpiry = form{parse: func(s string) (any, error) {
		return ParseOneOf(s, atoll.ExpireRemove, atoll.ExpireStop, atoll.ExpirePause)
	}}
	formAccel       = form{parse: func(s string) (any, error) { return ParseOneOf(s, "kvm", "tcg") }}
	formType        = form{parse: func(s string) (any, error) { return ParseOneOf(s, "microvm", "q35") }}
	formBridge      = form{parse: func(s string) (any, error) { return parseInterface(s) }}
	formPaths       = form{List: true, parse: func(s string) (any, error) { return ParsePath(s) }}
	formShare       = form{parse: func(s string) (any, error) { return ParseOneOf(s, "virtiofs", "9p") }}
	formOutput      = form{parse: func(s string) (any, error) { return ParseOneOf(s, "text", "json") }}
	formWorkspaces  = form{List: true, parse: func(s string) (any, error) { return ParseWorkspace(s) }}
	formAgentImages = form{List: true, parse: func(s string) (any, error) { return s, checkAgentImage(s) }}
	formHosts       = form{List: true, parse: func(s string) (any, error) { return s, nil }}
	formWords       = form{List: true, space: true, parse: func(s string) (any, error) { return s, nil }}
	formListen      = form{List: true, parse: func(s string) (any, error) { return parseListen(s) }}
	formProxy       = form{parse: func(s string) (any, error) { return parseProxy(s) }}
	formUpstream    = form{parse: func(s string) (any, error) {
		if s == upstream.None {
			return s, nil
		}
		return s, upstream.CheckProxy(s)
	}}
	formDomains    = form{List: true, parse: func(s string) (any, error) { return s, proxy.Names{Domains: []string{s}}.Check() }}
	formAccess     = form{parse: func(s string) (any, error) { return ParseOneOf(s, accessAuto, AccessLinks, AccessOpen) }}
	formOutside    = form{parse: func(s string) (any, error) { return parseOutside(s) }}
	formCaddy      = form{parse: func(s string) (any, error) { return parseCaddy(s) }}
	formInterfaces = form{List: true, parse: func(s string) (any, error) { return parseInterface(s) }}
	formSwitch     = form{parse: func(s string) (any, error) { return parseSwitch(s) }}
	formNamespace  = form{parse: func(s string) (any, error) { return parseNamespace(s) }}
	formInside     = form{parse: func(s string) (any, error) { return parseInside(s) }}
	formPlacement  = form{parse: func(s string) (any, error) { return parsePlacement(s) }}
	formTargets    = form{tree: true, parse: func(s string) (any, error) { return parseTargets(s) }}
	formAmounts    = form{tree: true, parse: func(s string) (any, error) { return parseQuota(s) }}
	formSync       = form{parse: func(s string) (any, error) {
		return ParseOneOf(s, project.Manual, project.AutoCommit, project.AutoIdle)
	}}
	formSyncIdle     = form{parse: func(s string) (any, error) { return parseSyncIdle(s) }}
	formPatterns     = form{List: true, parse: func(s string) (any, error) { return s, projectfile.CheckPattern(s) }}
	formPrefixes     = form{List: true, parse: func(s string) (any, error) { return parsePrefix(s) }}
	formProvider     = form{parse: func(s string) (any, error) { return ParseOneOf(s, projectfile.Providers()...) }}
	formLoginURL     = form{parse: func(s string) (any, error) { return s, identity.CheckURL(s) }}
	formIssuer       = form{parse: func(s string) (any, error) { return s, issuer.CheckURL(s) }}
	formSecrets      = form{tree: true, parse: func(s string) (any, error) { return secretref.ParseProviders(s) }}
	formProviders    = form{tree: true, parse: func(s string) (any, error) { return identity.ParseProviders(s) }}
	formCertificates = form{tree: true, parse: func(s string) (any, error) { return identity.ParseCertificates(s) }}
	formClientCert   = form{parse: func(s string) (any, error) { return ParseOneOf(s, CertificateRequired, CertificateOptional) }}
	formStorage      = form{parse: func(s string) (any, error) { return s, objectstore.CheckStorage(s) }}
	formEndpoint     = form{parse: func(s string) (any, error) { return s, objectstore.CheckEndpoint(s) }}
	formPathStyle    = form{parse: func(s string) (any, error) { return ParseOneOf(s, "auto", "true", "false") }}
	formCron         = form{parse: func(s string) (any, error) {
		if _, err := cron.ParseStandard(s); err != nil {
			return s, errors.New("must be five fields: minute, hour, day, month, weekday, like \"0 3 * * *\"")
		}
		return s, nil
	}}
)
