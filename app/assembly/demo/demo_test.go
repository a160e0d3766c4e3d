package demo

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"
)

// monday is noon of one.
var monday = time.Date(2026, 3, 2, 12, 0, 0, 0, time.UTC)

func newPlan(now time.Time) *loader {
	return plan(Options{Now: now, Random: rand.New(rand.NewPCG(1, 2)).IntN})
}

func TestAMonthEndsNowOnWhateverDay(t *testing.T) {
	for after := range 7 {
		for _, hour := range []int{0, 3, 23} {
			now := monday.Truncate(24*time.Hour).AddDate(0, 0, after).Add(time.Duration(hour)*time.Hour + time.Second)
			t.Run(now.Format("Monday 15:04"), func(t *testing.T) {
				created, today := 0, 0
				for _, a := range newPlan(now).events {
					if a.at.After(now) {
						t.Fatalf("%s is planned for %v", a.description, a.at)
					}
					if a.description == "making a task" {
						created++
					}
					if a.description == "chatting" && a.at.YearDay() == now.YearDay() {
						today++
					}
				}
				if created != 200 || today == 0 {
					t.Errorf("%d tasks, %d chats today", created, today)
				}
			})
		}
	}
}

func TestTheSameNumbersMakeTheSameMonth(t *testing.T) {
	same := func(a, b event) bool { return a.at.Equal(b.at) && a.description == b.description }
	if !slices.EqualFunc(newPlan(monday).events, newPlan(monday).events, same) {
		t.Error("the second plan is another")
	}
}

func TestTasksHaveDifferentTitles(t *testing.T) {
	known := map[string]bool{}
	for _, w := range workspaces {
		for _, a := range w.actions {
			for _, subject := range w.subjects {
				title := strings.Replace(a.title, "%s", subject, 1)
				if known[title] || title == a.title {
					t.Errorf("%q is there twice or says nothing of %q", title, subject)
				}
				known[title] = true
			}
		}
	}
}
