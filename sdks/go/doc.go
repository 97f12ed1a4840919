// Package skillbox is the client of Skillbox, the self-hosted runtime for agent skills. It needs nothing but the standard library.
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
// A script that fails is a result with Status "failed", not an error. A call that fails gives an [*APIError] when the server said no,
// and a [*ConnectionError] when no answer came; both carry a request id that finds the call in the server's log, and both match the
// sentinels of this package:
//
//	if errors.Is(err, skillbox.ErrNotFound) { … }
//
// A call is sent again after 429 and 503, and after a lost connection where that is harmless: when it only reads, when it never
// arrived, and for runs, which carry one idempotency key a call and therefore run once.
package skillbox

// Version of this package.
const Version = "0.1.0"
