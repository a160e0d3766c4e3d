package httpapi

import (
	"fmt"
	"math"
	"net/netip"
	"strconv"
	"strings"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
	"golang.org/x/time/rate"

	"collab/domain/fault"
)

// maxBuckets bounds how many callers or addresses are remembered; the ones not
// seen for longest are forgotten first.
const maxBuckets = 1 << 16

// Rate is how many requests are allowed in a period. The zero value is no
// limit.
type Rate struct {
	Count int
	Per   time.Duration
}

// Rates are the limits of one server.
type Rates struct {
	Caller      Rate // per user
	Address     Rate // per address of requests without a user
	Chat        Rate // chats per user
	Credentials Rate // reading and changing connectors' credentials, per user
	Webhook     Rate // providers' messages, per address
}

// ParseRates reads "caller=1200/m,address=600/m,chat=60/m,credentials=60/m,webhook=6000/m"
// with the periods s, m and h, or "off". What is not named has no limit.
func ParseRates(s string) (Rates, error) {
	var r Rates
	if s == "off" {
		return r, nil
	}
	seen := map[string]bool{}
	for part := range strings.SplitSeq(s, ",") {
		name, value, _ := strings.Cut(strings.TrimSpace(part), "=")
		to := map[string]*Rate{"caller": &r.Caller, "address": &r.Address, "chat": &r.Chat, "credentials": &r.Credentials, "webhook": &r.Webhook}[name]
		count, per, _ := strings.Cut(value, "/")
		n, err := strconv.Atoi(count)
		period := map[string]time.Duration{"s": time.Second, "m": time.Minute, "h": time.Hour}[per]
		if to == nil || seen[name] || err != nil || n < 1 || n > 1_000_000 || period == 0 {
			return Rates{}, fmt.Errorf("%q is not a limit such as caller=1200/m, of caller, address, chat, credentials or webhook, per s, m or h", part)
		}
		seen[name], *to = true, Rate{n, period}
	}
	return r, nil
}

// limiter holds a token bucket for each key. A nil limiter allows everything.
type limiter struct {
	rate    Rate
	refill  rate.Limit
	now     func() time.Time
	buckets *lru.Cache[string, *rate.Limiter]

	// Headers that are the same for every answer. They are shared between
	// answers and never changed.
	limit, policy []string
	name          string // as in the policy, quoted
}

func newLimiter(name string, r Rate, now func() time.Time) (*limiter, error) {
	if r.Count == 0 {
		return nil, nil
	}
	buckets, err := lru.New[string, *rate.Limiter](maxBuckets)
	if err != nil {
		return nil, err
	}
	count := strconv.Itoa(r.Count)
	name = strconv.Quote(name)
	return &limiter{
		rate: r, refill: rate.Limit(float64(r.Count) / r.Per.Seconds()), now: now, buckets: buckets, name: name,
		limit:  []string{count},
		policy: []string{name + ";q=" + count + ";w=" + strconv.Itoa(int(r.Per.Seconds()))},
	}, nil
}

func (l *limiter) bucket(key string) *rate.Limiter {
	if b, ok := l.buckets.Get(key); ok {
		return b
	}
	fresh := rate.NewLimiter(l.refill, l.rate.Count)
	if b, ok, _ := l.buckets.PeekOrAdd(key, fresh); ok {
		return b // another request of the same caller was faster
	}
	return fresh
}

// take takes one token of the key's bucket and says in the headers what is
// left. It fails when there is none.
func (l *limiter) take(c *call, key string) error {
	if l == nil {
		return nil
	}
	now := l.now()
	b := l.bucket(key)
	allowed := b.AllowN(now, 1)
	tokens := b.TokensAt(now)
	remaining := strconv.Itoa(max(0, int(tokens)))
	reset := strconv.Itoa(l.seconds(float64(l.rate.Count) - tokens))
	h := c.Header()
	h["Ratelimit-Limit"], h["Ratelimit-Policy"] = l.limit, l.policy
	c.set("Ratelimit-Remaining", remaining)
	c.set("Ratelimit-Reset", reset)
	c.set("Ratelimit", l.name+";r="+remaining+";t="+reset)
	if allowed {
		return nil
	}
	limited := fault.New(fault.Limited, "Too many requests")
	limited.RetryAfter = max(1, l.seconds(1-tokens))
	return limited
}

// charge takes n tokens of the key's bucket, or all of a smaller one, though they
// are not there: the next ones are refused until they have come back.
func (l *limiter) charge(key string, n int) {
	if l != nil {
		l.bucket(key).ReserveN(l.now(), min(n, l.rate.Count))
	}
}

// withdrawLimits takes back what the headers say.
func withdrawLimits(c *call) {
	for _, name := range []string{"Ratelimit-Limit", "Ratelimit-Policy", "Ratelimit-Remaining", "Ratelimit-Reset", "Ratelimit"} {
		delete(c.Header(), name)
	}
}

// seconds is how long it takes for so many tokens to come back.
func (l *limiter) seconds(tokens float64) int {
	return int(math.Ceil(max(0, tokens) / float64(l.refill)))
}

// network is what an address is limited as: IPv6 clients have a whole /64 to
// themselves.
func network(address string) string {
	a, err := netip.ParseAddr(address)
	if err != nil || a.Unmap().Is4() {
		return address
	}
	p, err := a.WithZone("").Prefix(64)
	if err != nil {
		return address
	}
	return p.String()
}
