package client

import (
	"context"
	"net/http"
	"net/url"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/wire"
)

func webhookPath(key string) string { return "/v1/webhooks/" + escapeSegment(key) }

// CreateWebhook creates a webhook with the name, owner, URL, types and AllOwners of w.
// Only the result of this call holds its secret.
func (c *Client) CreateWebhook(ctx context.Context, w atoll.Webhook) (atoll.Webhook, error) {
	var made atoll.Webhook
	err := c.postJSON(ctx, call{op: "create webhook", id: w.Name, path: "/v1/webhooks"}, w, &made)
	return made, err
}

// Webhooks returns the webhooks, oldest first.
func (c *Client) Webhooks(ctx context.Context) ([]atoll.Webhook, error) {
	return getList[atoll.Webhook](ctx, c, call{op: "list webhooks", path: "/v1/webhooks"})
}

// Webhook returns a webhook, given by id or name.
func (c *Client) Webhook(ctx context.Context, key string) (atoll.Webhook, error) {
	var w atoll.Webhook
	err := c.getJSON(ctx, call{op: "get webhook", id: key, path: webhookPath(key)}, &w)
	return w, err
}

// UpdateWebhook changes a webhook, given by id or name. The result holds a secret only if it was renewed.
func (c *Client) UpdateWebhook(ctx context.Context, key string, change atoll.WebhookChange) (atoll.Webhook, error) {
	var w atoll.Webhook
	err := c.postJSON(ctx, call{op: "update webhook", id: key, method: http.MethodPatch, path: webhookPath(key)}, change, &w)
	return w, err
}

// RemoveWebhook removes a webhook and its deliveries, given by id or name.
func (c *Client) RemoveWebhook(ctx context.Context, key string) error {
	return c.getJSON(ctx, call{op: "remove webhook", id: key, method: http.MethodDelete, path: webhookPath(key)}, nil)
}

// Deliveries returns at most limit deliveries of a webhook in a state, oldest first; 0: 100.
func (c *Client) Deliveries(ctx context.Context, key string, state atoll.DeliveryState, limit int) ([]atoll.Delivery, error) {
	q := make(url.Values)
	setText(q, "state", string(state))
	setNumber(q, "limit", int64(limit))
	return getList[atoll.Delivery](ctx, c, call{op: "list deliveries", id: key, path: webhookPath(key) + "/deliveries", query: q})
}

// Redeliver sends a delivery again that was given up; an empty id: all of them. It returns how many.
func (c *Client) Redeliver(ctx context.Context, key, id string) (int, error) {
	if id == "" {
		id = "all"
	}
	var n wire.Count
	err := c.getJSON(ctx, call{op: "redeliver", id: key, method: http.MethodPost, path: webhookPath(key) + "/deliveries/" + escapeSegment(id) + "/redeliver"}, &n)
	return n.Count, err
}
