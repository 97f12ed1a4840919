// Publishes a skill, follows a run of it, and lists what it left. Needs: npm install skillbox
import { fileURLToPath } from "node:url";
import { Client } from "skillbox";
import { readSkillDirectory } from "skillbox/node";

const skills = process.env.SKILLBOX_EXAMPLES ?? fileURLToPath(new URL("../skills", import.meta.url));
const client = new Client(process.env.SKILLBOX_SERVER_URL ?? "http://localhost:8080");
await client.registerSkill(await readSkillDirectory(`${skills}/svg-chart`));

const points = [{ label: "Q1", value: 3 }, { label: "Q2", value: 5 }];
const started = await client.start({ skill: "svg-chart", input: { title: "Sales", points } });
for await (const event of client.events(started.execution_id)) {
  if (event.type === "log") process.stdout.write(event.text);
  if (event.type !== "result") continue;
  for await (const file of client.files(event.result)) console.log(file.name, file.size);
}
