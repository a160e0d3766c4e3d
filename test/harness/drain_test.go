package harness_test

import (
	"testing"

	"collab/domain/chat"
)

func TestACallThatComesWhenTheServerHasGoneQuietEndsAtOnce(t *testing.T) {
	w := talking(t)
	w.Drain()
	w.ask(t, t.Context())
	if got := w.said.line(); got != "error:An error occurred while processing your request." {
		t.Errorf("heard %q", got)
	}
	if e := w.settled(t, chat.ShutDown); e.Tokens.Total() != 0 {
		t.Errorf("the entry is %+v", e)
	}
}
