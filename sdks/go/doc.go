// Package skillbox is the client of Skillbox, the self-hosted runtime for agent skills. It depends only on the standard library.
//
//	client := skillbox.New("http://localhost:8080", "sk-…")
//	result, err := client.Run(ctx, skillbox.RunRequest{
//		Skill: "word-counter",
//		Input: json.RawMessage(`{"text":"one two two"}`),
//	})
//	if err != nil {
//		log.Fatal(err)
//	}
//	fmt.Println(result.Status, string(result.Output))
//
// A script that fails is a result with Status "failed", not an error. A call that fails returns an [*APIError] if the server sent an
// error response, and a [*ConnectionError] if there was no response. Both contain a request id that identifies the call in the server's
// log, and both match the sentinels of this package:
//
//	if errors.Is(err, skillbox.ErrNotFound) { … }
//
// A call is retried after 429 and 503, and after a lost connection where that is safe: if it only reads, if it never reached the
// server, and for runs, because all attempts carry the same idempotency key.
package skillbox

// Version of this package.
const Version = "0.1.0"
