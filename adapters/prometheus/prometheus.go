// Package prometheus answers scrapes in Prometheus' text format, version 0.0.4.
package prometheus

import (
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"net/http"
	"slices"
	"sort"
	"strconv"
	"strings"

	"go.opentelemetry.io/otel/attribute"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"collab/adapters/accept"
)

// Handler replies with the reader's metrics, under the names that OpenTelemetry's
// specification gives them in this format, and with those of the process.
func Handler(reader sdkmetric.Reader) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		families, err := collect(r.Context(), reader)
		if err != nil {
			http.Error(w, "The metrics cannot be collected: "+err.Error(), http.StatusInternalServerError)
			return
		}
		h := w.Header()
		h.Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
		h.Add("Vary", "Accept-Encoding")
		body := encode(slices.Concat(families, runtimeFamilies(), processFamilies()))
		if accept.Gzip(r.Header["Accept-Encoding"]) {
			h.Set("Content-Encoding", "gzip")
			z := gzip.NewWriter(w)
			_, _ = z.Write(body) // the client is gone if it fails
			_ = z.Close()
			return
		}
		_, _ = w.Write(body)
	})
}

// family is a metric with its samples.
type family struct {
	name, help, kind string
	samples          []sample
}

// sample is a value of a family. Suffix follows the family's name. Labels are encoded without
// braces. Bound is the upper bound of a histogram's bucket.
type sample struct {
	suffix, labels, bound string
	value                 float64
}

// encode returns the families in the order of their names.
func encode(families []family) []byte {
	sort.Slice(families, func(i, j int) bool { return families[i].name < families[j].name })
	var b bytes.Buffer
	for _, f := range families {
		b.WriteString("# HELP " + f.name + " " + escapeHelp.Replace(f.help) + "\n# TYPE " + f.name + " " + f.kind + "\n")
		for _, s := range f.samples {
			if s.bound != "" {
				s.labels = strings.TrimPrefix(s.labels+","+label("le", s.bound), ",")
			}
			b.WriteString(f.name + s.suffix)
			if s.labels != "" {
				b.WriteString("{" + s.labels + "}")
			}
			b.WriteString(" " + formatFloat(s.value) + "\n")
		}
	}
	return b.Bytes()
}

var (
	escapeHelp  = strings.NewReplacer(`\`, `\\`, "\n", `\n`)
	escapeLabel = strings.NewReplacer(`\`, `\\`, "\n", `\n`, `"`, `\"`)
)

func formatFloat(v float64) string { return strconv.FormatFloat(v, 'g', -1, 64) }

// collect returns the reader's metrics, and target_info with the attributes of their resource.
func collect(ctx context.Context, reader sdkmetric.Reader) ([]family, error) {
	var all metricdata.ResourceMetrics
	if err := reader.Collect(ctx, &all); err != nil {
		return nil, err
	}
	families := []family{{"target_info", "Target metadata", "gauge", []sample{{labels: labels(*all.Resource.Set()), value: 1}}}}
	for _, scope := range all.ScopeMetrics {
		for _, m := range scope.Metrics {
			f := family{metricName(m.Name, m.Unit), m.Description, "gauge", nil}
			monotonic := false
			switch data := m.Data.(type) {
			case metricdata.Gauge[int64]:
				f.samples = values(data.DataPoints)
			case metricdata.Gauge[float64]:
				f.samples = values(data.DataPoints)
			case metricdata.Sum[int64]:
				f.samples, monotonic = values(data.DataPoints), data.IsMonotonic
			case metricdata.Sum[float64]:
				f.samples, monotonic = values(data.DataPoints), data.IsMonotonic
			case metricdata.Histogram[int64]:
				f.samples, f.kind = buckets(data.DataPoints), "histogram"
			case metricdata.Histogram[float64]:
				f.samples, f.kind = buckets(data.DataPoints), "histogram"
			default:
				return nil, fmt.Errorf("%s is a %T", m.Name, m.Data)
			}
			if monotonic {
				f.name, f.kind = strings.TrimSuffix(f.name, "_total")+"_total", "counter"
			}
			sort.SliceStable(f.samples, func(i, j int) bool { return f.samples[i].labels < f.samples[j].labels })
			families = append(families, f)
		}
	}
	return families, nil
}

// metricName returns the name of a metric with a suffix for its unit. Units between braces,
// which are annotations, have none.
func metricName(name, unit string) string {
	name = identifier(name)
	suffix := map[string]string{"s": "_seconds", "By": "_bytes"}[unit]
	return strings.TrimSuffix(name, suffix) + suffix
}

// identifier returns a name with underscores for invalid characters.
func identifier(name string) string {
	return strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' {
			return r
		}
		return '_'
	}, name)
}

// labels encodes attributes in their order, which is that of their keys.
func labels(attributes attribute.Set) string {
	var all []string
	for _, a := range attributes.ToSlice() {
		all = append(all, label(identifier(string(a.Key)), a.Value.String()))
	}
	return strings.Join(all, ",")
}

func label(name, value string) string { return name + `="` + escapeLabel.Replace(value) + `"` }

func values[N int64 | float64](points []metricdata.DataPoint[N]) []sample {
	samples := make([]sample, 0, len(points))
	for _, p := range points {
		samples = append(samples, sample{labels: labels(p.Attributes), value: float64(p.Value)})
	}
	return samples
}

// buckets returns the samples of histograms. The counts of the format's buckets are cumulative.
func buckets[N int64 | float64](points []metricdata.HistogramDataPoint[N]) (samples []sample) {
	for _, p := range points {
		attributes, count := labels(p.Attributes), uint64(0)
		for i, n := range p.BucketCounts {
			bound := "+Inf"
			if i < len(p.Bounds) {
				bound = formatFloat(p.Bounds[i])
			}
			count += n
			samples = append(samples, sample{"_bucket", attributes, bound, float64(count)})
		}
		samples = append(samples, sample{"_sum", attributes, "", float64(p.Sum)}, sample{"_count", attributes, "", float64(p.Count)})
	}
	return samples
}
