package model

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
)

// hiding is what is shown in place of a secret.
const hiding = "***"

// bare is a Connector that is printed as it is.
type bare Connector

// shown is the connector as it may be seen.
func (c Connector) shown() bare {
	b := bare(c)
	if b.Key != "" {
		b.Key = hiding
	}
	if len(c.Headers) > 0 {
		b.Headers = make(map[string]string, len(c.Headers))
		for name, v := range c.Headers {
			if isSecretHeader(name) {
				v = hiding
			}
			b.Headers[name] = v
		}
	}
	return b
}

// String tells about the connector without its key.
func (c Connector) String() string { return fmt.Sprintf("%+v", c.shown()) }

// GoString tells about the connector without its key.
func (c Connector) GoString() string {
	return "model.Connector" + strings.TrimPrefix(fmt.Sprintf("%#v", c.shown()), "model.bare")
}

// LogValue tells about the connector without its key.
func (c Connector) LogValue() slog.Value {
	return slog.GroupValue(slog.String("name", c.Name), slog.String("api", string(c.API)), slog.String("base", c.Base), slog.String("model", c.Model))
}

// MarshalJSON writes the connector without its key.
func (c Connector) MarshalJSON() ([]byte, error) { return json.Marshal(c.shown()) }
