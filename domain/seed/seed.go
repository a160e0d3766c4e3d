// Package seed has the teams, workspaces and sample tasks of a new organisation.
package seed

import "collab/domain/task"

// The names of the teams and workspaces.
const (
	SharedTeam        = "Shared"
	SharedWorkspace   = "Shared Workspace"
	PersonalTeam      = "Personal"
	PersonalWorkspace = "Personal Workspace"
)

// Tasks returns the sample tasks of the personal and of the shared workspace,
// three each, in their order.
func Tasks() (personal, shared []task.Draft) {
	personal = []task.Draft{
		{
			Title: "Say hello to your assistant", Description: new("Open a chat and ask what it can do for you."),
			Priority: task.High, Tags: []string{"getting-started"},
		},
		{
			Title: "Write down how you like to work", Tags: []string{"getting-started"},
			Description: new("Your preferences are kept in your memory and follow you everywhere."),
		},
		{
			Title: "Plan your week", Description: new("Add the tasks of this week and put them in order."),
			Priority: task.Low, Tags: []string{"planning"},
		},
	}
	shared = []task.Draft{
		{
			Title: "Invite your team", Description: new("People you invite join the Shared team at once."),
			Priority: task.High, Tags: []string{"getting-started"},
		},
		{
			Title: "Describe your organisation", Tags: []string{"getting-started"},
			Description: new("Everybody's assistant reads the organisation's memory."),
		},
		{
			Title: "Connect your tools", Priority: task.Low, Tags: []string{"connectors"},
			Description: new("Connectors let the assistant work with the services you already use."),
		},
	}
	return personal, shared
}
