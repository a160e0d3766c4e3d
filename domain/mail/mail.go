// Package mail has the e-mails that the service sends.
package mail

import (
	"fmt"
	"strings"
	"time"
)

// Message is one e-mail in plain text.
type Message struct {
	To      string
	Subject string
	Text    string
}

// Invitation writes the e-mail that carries an invitation's link.
func Invitation(to, organisation, inviter, url string, expires time.Time) Message {
	if inviter = oneLine(inviter); inviter == "" {
		inviter = "Someone"
	}
	organisation = oneLine(organisation)
	return Message{
		To:      to,
		Subject: fmt.Sprintf("Join %s on Collab", organisation),
		Text: fmt.Sprintf("%s invited you to join %s on Collab.\n\nAccept the invitation here:\n%s\n\nThe link works until %s.\n",
			inviter, organisation, url, expires.UTC().Format("2 January 2006 15:04 UTC")),
	}
}

// oneLine keeps names that people chose from adding lines to a message.
func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }
