package model

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
)

// redactedValue replaces a secret.
const redactedValue = "***"

// plainConnector is a Connector that is printed without redaction.
type plainConnector Connector

// withoutSecrets returns the connector with redacted secrets.
func (c Connector) withoutSecrets() plainConnector {
	b := plainConnector(c)
	if b.Key != "" {
		b.Key = redactedValue
	}
	if len(c.Headers) > 0 {
		b.Headers = make(map[string]string, len(c.Headers))
		for name, v := range c.Headers {
			if isSecretHeader(name) {
				v = redactedValue
			}
			b.Headers[name] = v
		}
	}
	return b
}

// String returns the connector without its key.
func (c Connector) String() string { return fmt.Sprintf("%+v", c.withoutSecrets()) }

// GoString returns the connector without its key.
func (c Connector) GoString() string {
	return "model.Connector" + strings.TrimPrefix(fmt.Sprintf("%#v", c.withoutSecrets()), "model.plainConnector")
}

// LogValue returns the connector without its key.
func (c Connector) LogValue() slog.Value {
	return slog.GroupValue(slog.String("name", c.Name), slog.String("api", string(c.API)), slog.String("base", c.Base), slog.String("model", c.Model))
}

// MarshalJSON writes the connector without its key.
func (c Connector) MarshalJSON() ([]byte, error) { return json.Marshal(c.withoutSecrets()) }
