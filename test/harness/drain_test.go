package harness_test

import (
	"testing"

	"collab/domain/chat"
)

func TestACallThatBeginsWhenTheServerHasGoneQuietEndsAtOnce(t *testing.T) {
	w := talking(t)
	call := w.admit(t)
	w.Drain()
	call.Run(t.Context(), w.said)
	if got := w.said.line(); got != "error:An error occurred while processing your request." {
		t.Errorf("heard %q", got)
	}
	if e := w.settled(t, chat.ShutDown); e.Tokens.Total() != 0 {
		t.Errorf("the entry is %+v", e)
	}
}
