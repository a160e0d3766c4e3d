package tour

import (
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"collab/app/tasks"
	"collab/domain/chat"
	"collab/domain/check"
	"collab/domain/connector"
	"collab/domain/invitation"
	"collab/domain/object"
	"collab/domain/org"
	"collab/domain/plan"
	"collab/domain/session"
	"collab/domain/task"
	"collab/domain/team"
	"collab/domain/workspace"
	"collab/test/must"
	"collab/test/pages"
)

func TestThePageOnLimitsHasTheConstants(t *testing.T) {
	const day = 24 * time.Hour
	want := map[string][]int64{
		"Names and titles":                    {check.MaxName},
		"Descriptions":                        {check.MaxDescription},
		"Tags of a task":                      {task.MaxTags},
		"Metadata of a task":                  {task.MaxMetadata},
		"Tasks in one reordering":             {tasks.MaxTasks},
		"Tags of the tasks in one reordering": {tasks.MaxOperandTags},
		"Path of a file":                      {object.MaxPath},
		"System prompt of a chat":             {chat.MaxSystem},
		"Messages of a history":               {chat.MaxTurns},
		"Tools of a chat":                     {chat.MaxTools},
		"Credentials of a connector":          {connector.MaxCredentials},
		"Connectors of an organisation":       {connector.MaxInstances},
		"Teams of an organisation":            {team.MaxTeams},
		"Files that a search examines":        {object.MaxExamined},
		"Tasks that a search examines":        {task.MaxExamined},
		"Organisations whose names an operator's search examines, or members of one that a search examines": {org.MaxExamined},
		"Members that a list names by their ids":                                                            {org.MaxNamed},
		"Workspaces of an organisation":                                                                     {workspace.MaxWorkspaces},
		"Members of a team":                                                                                 {team.MaxMembers},
		"Pending invitations of an organisation":                                                            {invitation.MaxPending},
		"Resending an invitation":                                                                           {int64(invitation.Resends.Burst), int64(invitation.Resends.Every / time.Minute)},
		"Invitation e-mails of an organisation":                                                             {int64(invitation.Emails.Burst)},
		"Message of a chat, and each text of its history":                                                   {chat.MaxMessage},
		"Tokens of a member per day (UTC)": {
			plan.Free.Limits().DailyTokens, plan.Standard.Limits().DailyTokens, plan.Enterprise.Limits().DailyTokens,
		},
		"Service token": {int64(session.Lifetime / day), int64(session.GracePeriod / day)},
		"Invitation":    {int64(invitation.Lifetime / time.Hour)},
		"Trial":         {int64(plan.TrialLength / day)},
	}
	number := regexp.MustCompile(`\d[\d,]*`)
	for _, cells := range rows(pages.Read(t, "docs/limits.md")) {
		numbers, ok := want[cells[0]]
		if !ok {
			continue // the limit is a variable's, or tested elsewhere
		}
		delete(want, cells[0])
		var got []int64
		for _, n := range number.FindAllString(cells[1], -1) {
			v := must.Do(strconv.ParseInt(strings.ReplaceAll(n, ",", ""), 10, 64)).Or(t)
			got = append(got, v)
		}
		if len(got) != len(numbers) {
			t.Errorf("%s: %q has other numbers than %v", cells[0], cells[1], numbers)
			continue
		}
		for i := range got {
			if got[i] != numbers[i] {
				t.Errorf("%s: %q has other numbers than %v", cells[0], cells[1], numbers)
			}
		}
	}
	for what := range want {
		t.Errorf("docs/limits.md has no row %q", what)
	}
}
