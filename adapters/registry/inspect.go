package registry

import (
	"collab/adapters/inspect"
	"collab/domain/chat"
)

// Inspect reports the models that are offered, or the error of reading them. Local says that the
// built-in model is the only one.
func Inspect(offered chat.Registry, err error, local bool) (f inspect.Findings) {
	if err != nil {
		f.Wrong("correct the file, or name one of its models whose provider is configured", "").Err = err
		return f
	}
	f.OK("%d in the registry; chats that name none have %s", len(offered), offered[0].ID)
	if local {
		f.Note("set COLLAB_ANTHROPIC_API_KEY or COLLAB_OPENAI_API_KEY for useful answers", "the built-in model alone")
	}
	return f
}

// InspectProvider returns the ids of a provider's models, and reports if there are none.
func InspectProvider(offered chat.Registry, provider string) (ids []string, f inspect.Findings) {
	for _, m := range offered {
		if m.Provider == provider {
			ids = append(ids, m.ID)
		}
	}
	if len(ids) == 0 {
		f.Note("add some to COLLAB_MODELS_FILE", "the registry has none of its models")
	}
	return ids, f
}
