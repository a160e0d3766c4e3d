package openai

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"slices"

	"collab/domain/fault"

	openai "github.com/openai/openai-go/v3"
)

// modelView is a model as the provider lists it.
type modelView struct {
	ID string `json:"id"`
}

// Unknown asks which models there are and returns those of the ids that the
// provider does not know. Unauthenticated when it does not know the key,
// Forbidden when the key may not ask, NotFound when the server has no list,
// Unavailable when it does not answer.
func (m *Models) Unknown(ctx context.Context, ids []string) ([]string, error) {
	var list struct {
		Data []modelView `json:"data"`
	}
	if err := m.client.Get(ctx, "models", nil, &list); err != nil {
		return nil, listFault(ctx, err)
	}
	var unknown []string
	for _, id := range ids {
		if slices.ContainsFunc(list.Data, func(m modelView) bool { return m.ID == id }) {
			continue
		}
		// Some servers list less than they have.
		var one modelView
		err := listFault(ctx, m.client.Get(ctx, "models/"+url.PathEscape(id), nil, &one))
		if err != nil && !fault.Is(err, fault.NotFound) {
			return nil, err
		}
		if err != nil {
			unknown = append(unknown, id)
		}
	}
	return unknown, nil
}

func listFault(ctx context.Context, err error) error {
	var refused *openai.Error
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return ctx.Err()
	case !errors.As(err, &refused):
		return fault.Wrap(fault.Unavailable, errors.New(lost(err)), "The provider does not answer")
	}
	cause := refusal(err)
	switch refused.StatusCode {
	case http.StatusUnauthorized:
		return fault.Wrap(fault.Unauthenticated, cause, "The provider does not know the key")
	case http.StatusForbidden:
		return fault.Wrap(fault.Forbidden, cause, "The key may not ask for models")
	case http.StatusNotFound, http.StatusMethodNotAllowed:
		return fault.Wrap(fault.NotFound, cause, "The server does not list its models")
	}
	return fault.Wrap(fault.Unavailable, cause, "The provider cannot answer")
}
