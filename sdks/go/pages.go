package skillbox

import (
	"context"
	"iter"
	"net/url"
	"strconv"
	"strings"
)

// pages iterates over all items of a list, fetching pages lazily.
func pages[T any](ctx context.Context, c *Client, k call, query map[string]string, size int) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		asked := map[string]string{}
		for name, value := range query {
			asked[name] = value
		}
		if size > 0 {
			asked["limit"] = strconv.Itoa(size)
		}
		for {
			var rows []T
			header, err := c.send(ctx, k.withQuery(asked), &rows)
			if err != nil {
				var none T
				yield(none, err)
				return
			}
			for _, row := range rows {
				if !yield(row, nil) {
					return
				}
			}
			if asked["cursor"] = nextCursor(header.Get("Link")); asked["cursor"] == "" {
				return
			}
		}
	}
}

// collect returns the items of a sequence as a slice.
func collect[T any](items iter.Seq2[T, error]) ([]T, error) {
	list := []T{}
	for item, err := range items {
		if err != nil {
			return nil, err
		}
		list = append(list, item)
	}
	return list, nil
}

// nextCursor returns the cursor of the rel="next" target in a Link header.
func nextCursor(link string) string {
	for _, part := range strings.Split(link, ",") {
		target, parameters, found := strings.Cut(strings.TrimSpace(part), ">")
		if !found || !(strings.Contains(parameters, `rel="next"`) || strings.Contains(parameters, "rel=next")) {
			continue
		}
		if next, err := url.Parse(strings.TrimPrefix(target, "<")); err == nil {
			return next.Query().Get("cursor")
		}
	}
	return ""
}
