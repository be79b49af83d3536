package atoll

import (
	"net/url"
	"strconv"
	"time"
)

// Webhook is an address that a fleet sends events to.
type Webhook struct {
	ID        string    `json:"id"`
	Name      string    `json:"name,omitempty"` // unique among the webhooks of an owner
	Owner     Owner     `json:"owner"`
	URL       string    `json:"url"`
	Types     []string  `json:"types,omitempty"`      // any of "sandbox.running", "sandbox.*"…; empty: all events
	AllOwners bool      `json:"all_owners,omitempty"` // events of all owners; needs ScopeOperate
	Disabled  bool      `json:"disabled,omitempty"`   // events are not sent, and not kept for later
	Created   time.Time `json:"created"`
	Token     string    `json:"token,omitempty"`  // id of the token that it was created with
	Secret    string    `json:"secret,omitempty"` // key of the signatures; known only when the webhook is created, or its secret is renewed

	Pending   int       `json:"pending"`              // deliveries that wait for an attempt
	Dead      int       `json:"dead"`                 // deliveries that were given up
	Delivered time.Time `json:"delivered,omitzero"`   // the last success
	Failed    time.Time `json:"failed,omitzero"`      // the last failure
	LastError string    `json:"last_error,omitempty"` // of the last failure
}

// Check reports every mistake in the URL and the name of a webhook.
func (w *Webhook) Check() error {
	var errs []error
	u, err := url.Parse(w.URL)
	port := 0
	if err == nil && u.Port() != "" {
		port, err = strconv.Atoi(u.Port())
	}
	switch {
	case err != nil || port > 65535 || len(w.URL) > 2048 || u.Scheme != "https" && u.Scheme != "http" || u.Hostname() == "" || u.Opaque != "":
		errs = append(errs, newFieldError("url", "url: must be https://HOST[:PORT][/PATH], at most 2048 bytes"))
	case u.User != nil:
		errs = append(errs, newFieldError("url", "url: must not hold a user or a password: the signature proves who sends"))
	case u.Fragment != "":
		errs = append(errs, newFieldError("url", "url: must not have a fragment, which is never sent"))
	}
	if w.Name != "" {
		if err := CheckName(w.Name); err != nil {
			errs = append(errs, err)
		}
	}
	return joinInvalid(errs)
}

// WebhookChange is an update of a webhook. Nil fields stay as they are.
type WebhookChange struct {
	URL      *string   `json:"url,omitempty"`
	Types    *[]string `json:"types,omitempty"`
	Disabled *bool     `json:"disabled,omitempty"`

	RenewSecret bool `json:"renew_secret,omitempty"` // replace the secret; the answer has the new one
}

// DeliveryState is the state of a delivery.
type DeliveryState string

// The states of deliveries. One that succeeded is not kept.
const (
	DeliveryPending DeliveryState = "pending" // waits for its next attempt
	DeliveryDead    DeliveryState = "dead"    // was given up; it can be sent again
)

// Delivery is one event on its way to one webhook.
type Delivery struct {
	ID       string        `json:"id"` // also the header webhook-id, equal in all attempts
	Webhook  string        `json:"webhook"`
	Event    Event         `json:"event"`
	State    DeliveryState `json:"state"`
	Attempts int           `json:"attempts"`
	Created  time.Time     `json:"created"`
	Next     time.Time     `json:"next,omitzero"`    // of the next attempt
	Status   int           `json:"status,omitempty"` // HTTP status of the last attempt; 0: there was no answer
	Error    string        `json:"error,omitempty"`  // of the last attempt
}
