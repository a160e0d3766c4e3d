package standardwebhooks

import "collab/adapters/inspect"

// Inspect checks the form of the secrets.
func Inspect(secrets []string) inspect.Findings {
	return inspect.WebhookSecrets(secrets, "the identity provider", "COLLAB_IDENTITY_WEBHOOK_SECRETS", func(secret string) error {
		_, err := parseSecret(secret)
		return err
	})
}
