package api

import (
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/fleet"
	"github.com/atoll-sandbox/atoll/internal/wire"
)

type (
	webhookKey struct {
		ID string `path:"id" doc:"The webhook's id, or its name."`
	}
	createWebhook struct {
		Body atoll.Webhook
	}
	changeWebhook struct {
		ID   string `path:"id" doc:"The webhook's id, or its name."`
		Body atoll.WebhookChange
	}
	listDeliveries struct {
		ID    string `path:"id" doc:"The webhook's id, or its name."`
		State string `query:"state" enum:"pending,dead" doc:"pending: those that wait for an attempt; dead (the default): those that were given up."`
		Limit int    `query:"limit" minimum:"0" maximum:"1000" doc:"Maximum number; 100 by default."`
	}
	deliveryKey struct {
		ID       string `path:"id" doc:"The webhook's id, or its name."`
		Delivery string `path:"delivery" doc:"The delivery's id, or 'all'."`
	}
)

// registerWebhooks registers webhooks and their deliveries.
func (s *Server) registerWebhooks(api huma.API) {
	noun := []string{"webhooks"}
	registerJSON(s, api, huma.Operation{
		OperationID: "list-webhooks", Method: http.MethodGet, Path: "/v1/webhooks", Tags: noun, Summary: "List the webhooks, oldest first",
	}, func(ctx context.Context, a *fleet.Account, _ *struct{}) (*reply[wire.List[atoll.Webhook]], error) {
		return listReply(a.Webhooks(ctx))
	})
	registerJSON(s, api, huma.Operation{
		OperationID: "create-webhook", Method: http.MethodPost, Path: "/v1/webhooks", Tags: noun, DefaultStatus: http.StatusCreated,
		Summary:     "Create a webhook",
		Description: "The name, owner, url, types and all_owners of the body are used. The secret is in this response only: it is the key of the header webhook-signature.", Errors: []int{409},
	}, func(ctx context.Context, a *fleet.Account, in *createWebhook) (*reply[atoll.Webhook], error) {
		return oneReply(a.CreateWebhook(ctx, in.Body))
	})
	registerJSON(s, api, huma.Operation{
		OperationID: "get-webhook", Method: http.MethodGet, Path: "/v1/webhooks/{id}", Tags: noun, Summary: "Get a webhook", Errors: []int{404},
	}, func(ctx context.Context, a *fleet.Account, in *webhookKey) (*reply[atoll.Webhook], error) {
		return oneReply(a.Webhook(ctx, in.ID))
	})
	registerJSON(s, api, huma.Operation{
		OperationID: "change-webhook", Method: http.MethodPatch, Path: "/v1/webhooks/{id}", Tags: noun, Summary: "Change a webhook, or renew its secret", Errors: []int{404},
	}, func(ctx context.Context, a *fleet.Account, in *changeWebhook) (*reply[atoll.Webhook], error) {
		return oneReply(a.UpdateWebhook(ctx, in.ID, in.Body))
	})
	registerJSON(s, api, huma.Operation{
		OperationID: "remove-webhook", Method: http.MethodDelete, Path: "/v1/webhooks/{id}", Tags: noun, Summary: "Remove a webhook and its deliveries", Errors: []int{404},
	}, func(ctx context.Context, a *fleet.Account, in *webhookKey) (*noBody, error) {
		return emptyReply(a.RemoveWebhook(ctx, in.ID))
	})
	registerJSON(s, api, huma.Operation{
		OperationID: "list-deliveries", Method: http.MethodGet, Path: "/v1/webhooks/{id}/deliveries", Tags: noun, Summary: "List the deliveries that wait, or were given up", Errors: []int{404},
	}, func(ctx context.Context, a *fleet.Account, in *listDeliveries) (*reply[wire.List[atoll.Delivery]], error) {
		state := atoll.DeliveryState(in.State)
		if state == "" {
			state = atoll.DeliveryDead
		}
		return listReply(a.Deliveries(ctx, in.ID, state, in.Limit))
	})
	registerJSON(s, api, huma.Operation{
		OperationID: "redeliver", Method: http.MethodPost, Path: "/v1/webhooks/{id}/deliveries/{delivery}/redeliver", Tags: noun,
		Summary: "Send a delivery again that was given up, or all of them", Errors: []int{404},
	}, func(ctx context.Context, a *fleet.Account, in *deliveryKey) (*reply[wire.Count], error) {
		if in.Delivery == "all" {
			in.Delivery = ""
		}
		n, err := a.Redeliver(ctx, in.ID, in.Delivery)
		return oneReply(wire.Count{Count: n}, err)
	})
}
