package limit

import (
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
	"golang.org/x/time/rate"

	"collab/domain/fault"
)

// maxBuckets bounds the callers or addresses in memory; the least recently used are
// evicted.
const maxBuckets = 1 << 16

// newCache returns a cache of maxBuckets values.
func newCache[V any]() *lru.Cache[string, V] {
	cache, _ := lru.New[string, V](maxBuckets) // it fails for a size of 0 only
	return cache
}

// getOrAdd returns the value of the key, which it adds if there is none.
func getOrAdd[V any](cache *lru.Cache[string, V], key string, fresh func() V) V {
	if v, ok := cache.Get(key); ok {
		return v
	}
	added := fresh()
	if v, ok, _ := cache.PeekOrAdd(key, added); ok {
		return v // added by a concurrent request with the same key
	}
	return added
}

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
// with the periods s, m and h, or "off". Names that are missing have no limit.
func ParseRates(s string) (Rates, error) {
	var r Rates
	if s == "off" {
		return r, nil
	}
	err := parseList("", s, "limit such as caller=1200/m, of caller, address, chat, credentials or webhook, per s, m or h",
		map[string]*Rate{"caller": &r.Caller, "address": &r.Address, "chat": &r.Chat, "credentials": &r.Credentials, "webhook": &r.Webhook}, parseRate)
	return r, err
}

func parseRate(value string) (Rate, bool) {
	count, per, _ := strings.Cut(value, "/")
	n, ok := parseNumber(1)(count)
	period := map[string]time.Duration{"s": time.Second, "m": time.Minute, "h": time.Hour}[per]
	return Rate{n, period}, ok && period != 0
}

// RateLimiter holds a token bucket for each key. A nil RateLimiter allows everything.
type RateLimiter struct {
	rate    Rate
	refill  rate.Limit
	now     func() time.Time
	buckets *lru.Cache[string, *rate.Limiter]

	// Headers that are the same for every response. They are shared between
	// answers and never changed.
	limit, policy []string
	name          string // as in the policy, quoted
}

// NewRateLimiter returns a limiter whose RateLimit headers have the name. It returns nil for the
// zero Rate.
func NewRateLimiter(name string, r Rate, now func() time.Time) *RateLimiter {
	if r.Count == 0 {
		return nil
	}
	count := strconv.Itoa(r.Count)
	name = strconv.Quote(name)
	return &RateLimiter{
		rate: r, refill: rate.Limit(float64(r.Count) / r.Per.Seconds()), now: now, buckets: newCache[*rate.Limiter](), name: name,
		limit:  []string{count},
		policy: []string{name + ";q=" + count + ";w=" + strconv.Itoa(int(r.Per.Seconds()))},
	}
}

func (l *RateLimiter) bucket(key string) *rate.Limiter {
	return getOrAdd(l.buckets, key, func() *rate.Limiter { return rate.NewLimiter(l.refill, l.rate.Count) })
}

// ResponseHeader is the header in which a limiter describes itself. Set sets a header, whose
// name is given in its canonical form.
type ResponseHeader interface {
	Header() http.Header
	Set(name, value string)
}

// Take takes one token of the key's bucket and sets the RateLimit headers to the remaining
// ones. It fails with fault.Limited if there is none.
func (l *RateLimiter) Take(c ResponseHeader, key string) error {
	if l == nil {
		return nil
	}
	now := l.now()
	b := l.bucket(key)
	allowed := b.AllowN(now, 1)
	tokens := b.TokensAt(now)
	setHeaders(c, l.limit, l.policy, l.name, max(0, int64(tokens)), l.seconds(float64(l.rate.Count)-tokens))
	if allowed {
		return nil
	}
	return fault.New(fault.Limited, "Too many requests").RetryIn(max(1, l.seconds(1-tokens)))
}

// setHeaders sets the RateLimit headers; name is quoted, and reset in seconds.
func setHeaders(c ResponseHeader, limit, policy []string, name string, remaining int64, reset int) {
	left, until := strconv.FormatInt(remaining, 10), strconv.Itoa(reset)
	h := c.Header()
	h["Ratelimit-Limit"], h["Ratelimit-Policy"] = limit, policy
	c.Set("Ratelimit-Remaining", left)
	c.Set("Ratelimit-Reset", until)
	c.Set("Ratelimit", name+";r="+left+";t="+until)
}

// SetHeaders sets the RateLimit headers to those of a limit of so many requests in a minute with
// the name, of which some remain until it is reset in so many seconds, unless they are of a limit
// of which fewer remain.
func SetHeaders(c ResponseHeader, name string, count, remaining int64, reset int) {
	if other := c.Header()["Ratelimit-Remaining"]; len(other) == 1 {
		if n, err := strconv.ParseInt(other[0], 10, 64); err == nil && n < remaining {
			return
		}
	}
	limit := strconv.FormatInt(count, 10)
	name = strconv.Quote(name)
	setHeaders(c, []string{limit}, []string{name + ";q=" + limit + ";w=60"}, name, remaining, reset)
}

// Charge takes n tokens of the key's bucket, or all of a smaller one, even if fewer are
// left: requests are refused until they are refilled.
func (l *RateLimiter) Charge(key string, n int) {
	if l != nil {
		l.bucket(key).ReserveN(l.now(), min(n, l.rate.Count))
	}
}

// RemoveHeaders removes the RateLimit headers.
func RemoveHeaders(h http.Header) {
	for _, name := range []string{"Ratelimit-Limit", "Ratelimit-Policy", "Ratelimit-Remaining", "Ratelimit-Reset", "Ratelimit"} {
		delete(h, name)
	}
}

// seconds returns the time in which so many tokens are refilled.
func (l *RateLimiter) seconds(tokens float64) int {
	return int(math.Ceil(max(0, tokens) / float64(l.refill)))
}
