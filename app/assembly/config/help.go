package config

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
)

// help explains the variables of Config.
var help = map[string]string{
	"COLLAB_MODE": "development fills in what is not configured; " +
		"production starts only when everything it needs is",
	"COLLAB_LISTEN":       "address to listen on",
	"COLLAB_PUBLIC_URL":   "the base address that clients use, without a path",
	"COLLAB_DATA_DIR":     "where embedded state lives",
	"COLLAB_DATABASE_URL": "sqlite://path, postgres://…, or memory:// to keep nothing",
	"COLLAB_DATABASE_DIRECT_URL": "postgres://… of the same database for migrations, if COLLAB_DATABASE_URL is " +
		"that of a pooler in transaction mode (pool_mode=transaction)",
	"COLLAB_DATABASE_REPLICA_URLS": "postgres://… of streaming replicas, comma separated, " +
		"for lists that may be a moment old",
	"COLLAB_BLOB_URL": "where the content of files lies: file://directory, gs://bucket/prefix, " +
		"s3://bucket/prefix, azblob://container/prefix, or mem:// to keep nothing",
	"COLLAB_SIGNED_URLS": "on gives clients that ask for it addresses at the object store, so that content does " +
		"not pass through the server",
	"COLLAB_BLOB_PUBLIC_URL": "origin by which clients reach the object store, " +
		"if it is another than the server's",
	"COLLAB_BUS_URL": "how servers tell each other of changes: nats://…, or local:// for a single server",

	"COLLAB_TOKEN_KEYS":   "file of PEM Ed25519 private keys: the first signs service tokens, all verify",
	"COLLAB_SECRETS_KEYS": "file of the keyset that seals secrets where they are kept",

	"COLLAB_IDENTITY_ISSUER":             "OpenID Connect issuer; discovery and keys are read from it",
	"COLLAB_IDENTITY_AUDIENCE":           "accepted aud values, comma separated; empty: not checked",
	"COLLAB_IDENTITY_AUTHORIZED_PARTIES": "accepted azp values, comma separated; empty: not checked",
	"COLLAB_IDENTITY_CLIENT_ID":          "client id of the authorization-code flow of the command-line sign-in",
	"COLLAB_IDENTITY_CLIENT_SECRET":      "its secret; empty for a public client",
	"COLLAB_IDENTITY_SIGN_IN_URL":        "hosted sign-in page of a provider that works by session instead of by code",
	"COLLAB_IDENTITY_SESSION_COOKIE":     "that provider's session cookie",
	"COLLAB_IDENTITY_WEBHOOK_SECRETS":    "whsec_… secrets, comma separated; empty: no message is accepted",
	"COLLAB_IDENTITY_ROLE_MAP":           "more role names of the provider: org:billing=MEMBER,…",

	"COLLAB_STRIPE_SECRET_KEY": "secret key of Stripe's API",
	"COLLAB_STRIPE_WEBHOOK_SECRETS": "whsec_… secrets of its messages, comma separated; " +
		"empty: no message is accepted",
	"COLLAB_STRIPE_PRICE_STANDARD": "ids of the prices of the plan STANDARD, comma separated: " +
		"the first is sold, the others were",
	"COLLAB_STRIPE_PRICE_PREMIUM": "ids of the prices of the plan PREMIUM, likewise",
	"COLLAB_STRIPE_API_URL":       "address of a server that speaks Stripe's API, without /v1",

	"COLLAB_ANTHROPIC_API_KEY": "key of Anthropic's API",
	"COLLAB_ANTHROPIC_URL":     "address of a server that speaks its protocol, without /v1",
	"COLLAB_OPENAI_API_KEY":    "key of OpenAI's API",
	"COLLAB_OPENAI_URL":        "address of a server that speaks its chat completions, with /v1",
	"COLLAB_MODELS_FILE":       "registry of models, a JSON file",
	"COLLAB_DEFAULT_MODEL":     "model of chats that name none",
	"COLLAB_CONNECTORS_FILE":   "catalog of tool servers, a JSON file",
	"COLLAB_CONNECTOR_NETWORKS": "networks that are not public where tool servers and their authorization " +
		"servers may be, such as 10.1.0.0/16, comma separated",

	"COLLAB_POSTHOG_KEY": "project key of PostHog, which receives metadata of every call of a model; empty: " +
		"PostHog is not used",
	"COLLAB_POSTHOG_URL": "address of a PostHog server",

	"COLLAB_ADMIN_SECRET": "value of the operator's X-Admin-Secret header; empty: operator endpoints answer 404",
	"COLLAB_CORS_ORIGINS": "origins of browser clients, such as https://app.example.com, comma separated; one * " +
		"in each is any characters",
	"COLLAB_MAX_UPLOAD_BYTES": "largest content of a file, in bytes",
	"COLLAB_PLAN_STORAGE": "how much content an organisation may store by plan, in MiB, GiB or TiB; a plan that " +
		"is not named has no limit; or off",
	"COLLAB_PLAN_VERSIONS": "for how many days, and how many, earlier versions of each file, memory and document " +
		"are kept by plan, such as FREE=7d/10; 0, or a plan that is not named, keeps none; or off",
	"COLLAB_RATE_LIMITS": "requests per caller, per address where there is no caller, and of providers per " +
		"address (webhook); or off",
	"COLLAB_PLAN_REQUESTS": "requests of an organisation in a minute by plan, on all servers together, such as " +
		"FREE=600,STANDARD=6000; a plan that is not named has no limit; or off",
	"COLLAB_BUDGETS": "what all requests may hold at once: memory for those of callers who are not known yet " +
		"(anonymous), for bodies, pages, downloads and uploads of known ones (callers), and for connections with " +
		"the headers of requests (connections), and disk for what waits in files (spool), in MiB, GiB or uploads " +
		"of COLLAB_MAX_UPLOAD_BYTES",
	"COLLAB_CONNECTIONS": "connections in all, and from one address that is no trusted proxy; without trusted " +
		"proxies those of this machine have no limit of their own",
	"COLLAB_CONCURRENCY": "what organisations share on a server: requests that use the database at once, of " +
		"which one organisation gets a sixty-fourth beside others, and provider messages (webhooks), of which it " +
		"gets two; change feeds (streams), uploads and downloads (transfers) and calls of models and other " +
		"providers (calls), of which an eighth is left for others; 32/processor is at least 64, and connections is " +
		"total= of COLLAB_CONNECTIONS",
	"COLLAB_TRUSTED_PROXIES": "addresses and networks of the proxies whose X-Forwarded-For is trusted, such as " +
		"127.0.0.1, comma separated; empty: the header is ignored",
	"COLLAB_HEARTBEAT":        "time between the comments that keep a change feed open",
	"COLLAB_FEED_RETENTION":   "how long changes stay in the feed for those who come back",
	"COLLAB_EXPORT_RETENTION": "how long the archive of an export that an owner asked for can be downloaded",
	"COLLAB_SMTP_URL": "smtp://user:password@host:port or smtps://…; " +
		"empty: e-mail is written to a file in the data directory",
	"COLLAB_MAIL_FROM": "sender of e-mail; production with COLLAB_SMTP_URL needs it",
	"COLLAB_APP_URL":   "address of the application, which invitations lead to",
	"COLLAB_RELEASE_ORGS": "ids of the organisations that may publish releases of the desktop application, comma " +
		"separated; empty: in development all, in production none",
	"COLLAB_RELEASE_HOSTS": "hosts that releases may be downloaded from, comma separated; empty: any",
	"COLLAB_LOG_LEVEL":     "debug, info, warn or error",
	"COLLAB_LOG_FORMAT":    "json or text",

	"OTEL_EXPORTER_OTLP_ENDPOINT": "collector that traces are sent to over HTTP; the other OTEL_EXPORTER_OTLP_* " +
		"variables count too; empty: no traces",
	"OTEL_SERVICE_NAME": "service name in traces and metrics",
}

// DescribeVariables calls variable with each variable that a text names, and its help.
func DescribeVariables(text string, variable func(name, help string)) {
	for _, f := range fields() {
		if name := f.Tag.Get("env"); slices.Contains(strings.FieldsFunc(text, isBetweenNames), name) {
			variable(name, help[name])
		}
	}
}

// isBetweenNames reports whether a character is none of a variable's name.
func isBetweenNames(r rune) bool { return r != '_' && (r < 'A' || r > 'Z') && (r < '0' || r > '9') }

// Help writes the table of variables.
func Help(w io.Writer) {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, f := range fields() {
		name, def := f.Tag.Get("env"), f.Tag.Get("default")+f.Tag.Get("dev")+f.Tag.Get("or")
		if f.Tag.Get("dev") != "" {
			def += "; " + cmp.Or(f.Tag.Get("prod"), "none") + " in production"
		}
		if def == "" {
			def = "-"
		}
		fmt.Fprintf(t, "  %s\t%s (%s)\n", name, help[name], def)
	}
	t.Flush()
}
