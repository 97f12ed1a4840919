//! Requests with which a tenant with an ordinary key could exhaust the memory of the server.

use std::collections::BTreeMap;

use reqwest::{Client, RequestBuilder, multipart};
use serde_json::{Value, json};
use skill::{PackageLimits, read_parts};
use tokio::task::{JoinHandle, JoinSet};

use crate::api::text;
use crate::support::Server;

const MIB: usize = 1 << 20;
/// Concurrent requests of one attack.
const CONCURRENT_REQUESTS: usize = 50;
/// Number of skills, and the length of their instructions.
const SKILLS: usize = 60;
const INSTRUCTIONS_BYTES: usize = 900 << 10;
/// Size of the large file in a skill, and of each input file.
const LARGE_BYTES: usize = 30 * MIB;

pub(super) struct Attack {
    pub name: &'static str,
    request: fn(&Attacker) -> RequestBuilder,
    /// The expected status codes; 0 is a broken connection.
    pub answers: &'static [u16],
}

/// Each request needs memory for the upload and for its extracted content.
pub(super) const UPLOADS: Attack = Attack {
    name: "large uploads",
    request: |attacker| attacker.validate(&attacker.large),
    answers: &[200, 429],
};

/// Without a defence the others need memory for the archive, for every manifest, for the files, for the
/// automata of the patterns, and for the archive again.
pub(super) const ATTACKS: [Attack; 6] = [
    Attack {
        name: "a small file of a large skill",
        request: |attacker| attacker.get("/v1/skills/large/latest/files/small.txt"),
        answers: &[200],
    },
    Attack {
        name: "a prompt of long manifests",
        request: |attacker| attacker.get("/v1/skills/prompt"),
        answers: &[200, 429],
    },
    UPLOADS,
    Attack {
        name: "runs refused for their input files",
        request: Attacker::run_with_inputs,
        answers: &[200, 429],
    },
    Attack {
        name: "expensive schemas",
        request: |attacker| attacker.validate(&attacker.patterns),
        answers: &[200, 429],
    },
    Attack {
        name: "a small file through MCP",
        request: Attacker::read_through_mcp,
        answers: &[200],
    },
];

/// The tenant that sends the attacks.
#[derive(Clone)]
pub(super) struct Attacker {
    http: Client,
    url: String,
    key: String,
    /// A skill with a large file and a small one.
    large: Vec<u8>,
    /// A skill whose schema has many expensive patterns.
    patterns: Vec<u8>,
    files: Vec<String>,
}

impl Attacker {
    pub(super) async fn new(server: &Server) -> Attacker {
        server.run(&["tenant", "create", "attacker"]).ok();
        let key = text(
            &server.json(&["key", "create", "-t", "attacker", "--scope", "execute,read,publish"])["key"],
        );
        let noise: Vec<u8> =
            (0..LARGE_BYTES as u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
        let large =
            [("large.bin", noise.clone()), ("small.txt", b"This is the small file.".to_vec())];
        let patterns: Vec<String> = (0..200)
            .map(|n| format!("    p{n}: {{type: string, pattern: '\\p{{L}}{{200}}{n}'}}\n"))
            .collect();
        let patterns =
            format!("input_schema:\n  type: object\n  properties:\n{}", patterns.concat());
        let mut attacker = Attacker {
            http: Client::new(),
            url: server.url.clone(),
            key,
            large: zip_skill("large", "", &large),
            patterns: zip_skill("patterns", &patterns, &[]),
            files: Vec::new(),
        };
        attacker.publish(attacker.large.clone()).await;
        let instructions = "Do it well. ".repeat(INSTRUCTIONS_BYTES / 12);
        for number in 0..SKILLS {
            attacker
                .publish(zip_skill(
                    &format!("wordy-{number}"),
                    &format!("---\n{instructions}"),
                    &[],
                ))
                .await;
        }
        for number in 0..5 {
            attacker
                .files
                .push(attacker.upload_file(&format!("{number}.bin"), noise.clone()).await);
        }
        attacker
    }

    /// Sends an attack, and returns how often each status was returned.
    pub(super) fn start(&self, attack: &Attack) -> JoinHandle<BTreeMap<u16, usize>> {
        let requests: Vec<RequestBuilder> =
            (0..CONCURRENT_REQUESTS).map(|_| (attack.request)(self)).collect();
        tokio::spawn(async move {
            let mut sent = JoinSet::new();
            for request in requests {
                sent.spawn(async move {
                    let Ok(answer) = request.send().await else { return 0 };
                    let status = answer.status().as_u16();
                    answer.bytes().await.map_or(0, |_| status)
                });
            }
            let mut answers = BTreeMap::new();
            for status in sent.join_all().await {
                *answers.entry(status).or_default() += 1;
            }
            answers
        })
    }

    fn get(&self, path: &str) -> RequestBuilder {
        self.http.get(format!("{}{path}", self.url)).bearer_auth(&self.key)
    }

    fn post(&self, path: &str) -> RequestBuilder {
        self.http.post(format!("{}{path}", self.url)).bearer_auth(&self.key)
    }

    fn validate(&self, zip: &[u8]) -> RequestBuilder {
        self.post("/v1/skills/validate")
            .header("content-type", "application/zip")
            .body(zip.to_vec())
    }

    /// The input files are larger than the disk of the run.
    fn run_with_inputs(&self) -> RequestBuilder {
        self.post("/v1/executions").json(&json!({ "skill": "wordy-0", "input_files": self.files }))
    }

    fn read_through_mcp(&self) -> RequestBuilder {
        let version = "2026-07-28";
        let message = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {
            "name": "read_skill_resource",
            "arguments": { "skill": "large", "path": "small.txt" },
            "_meta": {
                "io.modelcontextprotocol/protocolVersion": version,
                "io.modelcontextprotocol/clientInfo": { "name": "attacker", "version": "1" },
                "io.modelcontextprotocol/clientCapabilities": {},
            },
        } });
        let request = self
            .post("/mcp")
            .header("accept", "application/json, text/event-stream")
            .json(&message);
        request
            .header("mcp-protocol-version", version)
            .header("mcp-method", "tools/call")
            .header("mcp-name", "read_skill_resource")
    }

    async fn publish(&self, zip: Vec<u8>) {
        let request = self.post("/v1/skills").header("content-type", "application/zip").body(zip);
        let answer = request.send().await.expect("an answer");
        assert_eq!(answer.status(), 201, "{:?}", answer.text().await);
    }

    async fn upload_file(&self, name: &str, bytes: Vec<u8>) -> String {
        let form = multipart::Form::new()
            .part("file", multipart::Part::bytes(bytes).file_name(name.to_owned()));
        let answer = self.post("/v1/files").multipart(form).send().await.expect("an answer");
        let file: Value = answer.json().await.expect("JSON");
        text(&file["id"])
    }
}

/// A skill as a zip. `rest` continues the frontmatter, and may end it.
fn zip_skill(name: &str, rest: &str, files: &[(&str, Vec<u8>)]) -> Vec<u8> {
    let end = if rest.starts_with("---") { "" } else { "---\n" };
    let manifest = format!(
        "---\nname: {name}\ndescription: A skill made by a test.\nversion: 1.0.0\n{rest}{end}"
    );
    let script = ("main.sh".to_owned(), b"true\n".to_vec());
    let mut parts = vec![("SKILL.md".to_owned(), manifest.into_bytes()), script];
    parts.extend(files.iter().map(|(path, bytes)| ((*path).to_owned(), bytes.clone())));
    read_parts(parts, &PackageLimits::default()).expect("a skill").archive.to_vec()
}
