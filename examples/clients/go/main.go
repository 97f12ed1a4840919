// Publishes a skill, follows a run of it, and lists what it left.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"log"
	"os"

	skillbox "github.com/devs-group/skillbox/sdks/go"
)

func main() {
	ctx := context.Background()
	client := skillbox.New(os.Getenv("SKILLBOX_SERVER_URL"), "")
	published, err := client.PublishSkill(ctx, os.Args[1])
	check(err)
	points := json.RawMessage(`{"title": "Sales", "points": [{"label": "Q1", "value": 3}, {"label": "Q2", "value": 5}]}`)
	started, err := client.Start(ctx, skillbox.RunRequest{Skill: published.Name, Input: points})
	check(err)
	for event, err := range client.Events(ctx, started.ExecutionID, "") {
		check(err)
		fmt.Print(event.Text)
		if event.Result != nil {
			for _, file := range event.Result.Files {
				fmt.Println(file.Name, file.SizeBytes)
			}
		}
	}
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
