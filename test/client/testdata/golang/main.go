// Command client uses a client that oapi-codegen generates from the OpenAPI document. Its
// argument is the address of a server.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"log"
	"net/http"
	"net/url"
	"os"
)

func main() {
	if err := run(context.Background(), os.Args[1]); err != nil {
		log.Fatal(err)
	}
	fmt.Println("ok")
}

func run(ctx context.Context, server string) error {
	answer, err := http.PostForm(server+"/dev/identity/token", url.Values{"email": {"ada@collab.example"}, "org": {"Analytical Engines"}})
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	var identity struct{ IdentityToken string }
	if err := json.NewDecoder(answer.Body).Decode(&identity); err != nil {
		return err
	}
	open, err := NewClientWithResponses(server)
	if err != nil {
		return err
	}
	session, err := open.ExchangeTokenWithResponse(ctx, nil, Exchange{IdentityToken: identity.IdentityToken})
	if err != nil || session.JSON200 == nil {
		return fmt.Errorf("no session: %s, %w", session.Body, err)
	}
	api, err := NewClientWithResponses(server, WithRequestEditorFn(func(_ context.Context, r *http.Request) error {
		r.Header.Set("Authorization", "Bearer "+session.JSON200.Token)
		return nil
	}))
	if err != nil {
		return err
	}
	made, err := api.CreateTaskWithResponse(ctx, nil, TaskDraft{Title: "Write the report"})
	if err != nil || made.JSON201 == nil || made.JSON201.Priority != MEDIUM {
		return fmt.Errorf("no task: %s, %w", made.Body, err)
	}
	status := DONE
	done, err := api.UpdateTaskWithResponse(ctx, made.JSON201.Id.String(), nil, TaskPatch{Status: &status})
	if err != nil || done.JSON200 == nil || done.JSON200.CompletedAt == nil {
		return fmt.Errorf("the task is not done: %s, %w", done.Body, err)
	}
	list, err := api.ListTasksWithResponse(ctx, nil)
	if err != nil || list.JSON200 == nil || len(*list.JSON200) != 1 {
		return fmt.Errorf("the list is not of one task: %s, %w", list.Body, err)
	}
	refused, err := api.CreateTaskWithResponse(ctx, nil, TaskDraft{})
	if err != nil || refused.JSON400 == nil || refused.JSON400.StatusCode != http.StatusBadRequest {
		return fmt.Errorf("a task without a title is not refused: %s, %w", refused.Body, err)
	}
	return nil
}
