package httpapi

import (
	"cmp"
	"net/http"
	"strings"

	"collab/adapters/httpapi/body"
	"collab/app/metering"
	"collab/domain/calendar"
	"collab/domain/fault"
	"collab/domain/id"
	"collab/domain/object"
	"collab/domain/org"
	"collab/domain/plan"
	"collab/domain/quota"
	"collab/domain/usage"
)

type quotaView struct {
	Used      int64    `json:"used"`
	Limit     int64    `json:"limit"`
	Remaining int64    `json:"remaining"`
	ResetsAt  jsonTime `json:"resetsAt"`
}

func viewQuota(s quota.Status) quotaView {
	return quotaView{s.Used, s.Limit, s.Remaining, jsonTime(s.ResetsAt)}
}

type sumView struct {
	InputTokens  int64 `json:"inputTokens"`
	OutputTokens int64 `json:"outputTokens"`
	TotalTokens  int64 `json:"totalTokens"`
	Requests     int64 `json:"requests"`
}

func viewSum(s usage.Sum) sumView { return sumView{s.Input, s.Output, s.Input + s.Output, s.Requests} }

type (
	summaryView struct {
		PeriodStart jsonTime `json:"periodStart"`
		PeriodEnd   jsonTime `json:"periodEnd"`
		sumView
		ByModel []modelSumView `json:"byModel"`
		ByDay   []daySumView   `json:"byDay"`
	}
	modelSumView struct {
		Model string `json:"model"`
		sumView
	}
	daySumView struct {
		Date string `json:"date"`
		sumView
	}
	userSumView struct {
		UserID string `json:"userId"`
		sumView
	}
)

func viewSummary(s usage.Summary) summaryView {
	return summaryView{
		PeriodStart: jsonTime(s.Start), PeriodEnd: jsonTime(s.End), sumView: viewSum(s.Sum),
		ByModel: viewEach(func(p usage.Part) modelSumView { return modelSumView{p.Of, viewSum(p.Sum)} })(s.ByModel),
		ByDay:   viewEach(func(p usage.Part) daySumView { return daySumView{p.Of, viewSum(p.Sum)} })(s.ByDay),
	}
}

type (
	storageView struct {
		Plan      plan.Plan          `json:"plan"`
		Used      int64              `json:"used"`
		Limit     *int64             `json:"limit"`
		OverLimit bool               `json:"overLimit"`
		ByClass   storageByClassView `json:"byClass"`
		Uploads   int64              `json:"uploads"`
	}
	storageByClassView struct {
		SharedFiles   int64 `json:"sharedFiles"`
		PersonalFiles int64 `json:"personalFiles"`
		Memories      int64 `json:"memories"`
		Versions      int64 `json:"versions"`
	}
)

func viewStorage(s metering.Storage) storageView {
	return storageView{
		s.Plan, s.Used.Total(), limitOrNull(s.Limit), s.Limit != plan.Unlimited && s.Used.Present() > s.Limit,
		storageByClassView{s.Used[object.SharedFiles], s.Used[object.PersonalFiles], s.Used[object.Memories], s.Used[object.Versions]}, s.Uploads,
	}
}

// limitOrNull returns nil for plan.Unlimited.
func limitOrNull(limit int64) *int64 {
	if limit == plan.Unlimited {
		return nil
	}
	return &limit
}

func (a *api) quotaToday(c *call) error {
	return replyWith(c, http.StatusOK, viewQuota)(tryUnconfirmed(a, c,
		func(cached org.Actor) (quota.Status, error) { return a.Chats.QuotaUnconfirmed(c.r.Context(), cached) },
		func(actor org.Actor) (quota.Status, error) { return a.Chats.Quota(c.r.Context(), actor) }))
}

func viewUserSum(p usage.Part) userSumView { return userSumView{p.Of, viewSum(p.Sum)} }

type dailyView struct {
	Date   calendar.Day `json:"date"`
	Model  *string      `json:"model"`
	UserID *string      `json:"userId"`
	sumView
}

func viewDaily(d usage.Daily) dailyView {
	return dailyView{d.Day, textOrNull(d.Model), textOrNull(d.User), viewSum(d.Sum)}
}

// positionOfDaily returns the position of a sum among the daily sums of models or of users.
func positionOfDaily(d usage.Daily) body.Position {
	return body.Position{Key: string(d.Day) + "/" + cmp.Or(d.Model, string(d.User))}
}

// parseDailyCursor reads the cursor of a list of daily sums.
func parseDailyCursor(text string) (body.Position, bool) {
	p, ok := body.ParseKeyCursor(text)
	day, _, _ := strings.Cut(p.Key, "/")
	_, isDay := calendar.ParseDay(day)
	return p, ok && isDay
}

// dailyUsage lists the sums of each day and model or user.
func (a *api) dailyUsage(c *call) error {
	q, p, err := c.pageQuery(parseDailyCursor, []string{"from", "to", "by", "userId"})
	if err != nil {
		return err
	}
	first, last, err := readDays(q, a.Releases.Clock.Now())
	if err != nil {
		return err
	}
	b := usage.Breakdown{First: first, Last: last}
	if text, given := q.Get("by"); given {
		if b.ByUser = text == "user"; !b.ByUser && text != "model" {
			return fault.Field("by", "must be model or user")
		}
	}
	var after usage.Daily
	day, key, _ := strings.Cut(p.After.Key, "/")
	if after.Day = calendar.Day(day); b.ByUser {
		after.User = id.User(key)
	} else {
		after.Model = key
	}
	if text, given := q.Get("userId"); given {
		if b.User, given = id.Parse[id.User](text); !given || b.ByUser {
			return fault.Field("userId", "must be the id of a user, and not together with by=user")
		}
		after.User = b.User
	}
	read := func(actor org.Actor, each func(usage.Daily) error) error {
		return a.Metering.Daily(c.r.Context(), actor, b, after, p.Fetch(), each)
	}
	return list(a, c, q, p, positionOfDaily, viewAppender(viewDaily), read)
}

// orgUsage streams the sums of the users, whose number is not limited.
func (a *api) orgUsage(c *call) error {
	read := func(actor org.Actor, text func([]byte), each func(usage.Part) error) error {
		end := "}\n"
		err := a.Metering.Organisation(c.r.Context(), actor, func(sum usage.Summary, byUser bool) error {
			head, err := appendView(nil, viewSummary(sum))
			if err != nil {
				return err
			}
			head = head[:len(head)-1] // more fields follow
			if byUser {
				head, end = append(head, `,"byUser":[`...), "]}\n"
			}
			text(head)
			return nil
		}, each)
		text([]byte(end))
		return err
	}
	return listWithin(a, c, body.Query{}, body.Page{}, nil, viewAppender(viewUserSum), read)
}
