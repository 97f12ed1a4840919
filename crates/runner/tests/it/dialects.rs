//! Skills written for other runtimes, run unchanged.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;

use store::{Execution, Status, TenantPolicy};
use tempfile::TempDir;

use crate::support::{Bench, SKILL_MD, acme, detail};

const MANIFEST: &str = "name: office/unit_converter\nversion: 0.2.0\ndescription: Converts lengths.\ncategory: office\n\
    parameters:\n  type: object\n  properties:\n    km: {type: number}\n  required: [km]\n";

async fn skillware(code: &str) -> Bench {
    let bench = Bench::new().await;
    bench
        .publish(&[
            ("unit_converter/manifest.yaml", MANIFEST),
            ("unit_converter/skill.py", code),
            ("unit_converter/factors.py", "MILES = 0.5\n"),
            ("unit_converter/instructions.md", "Use it for lengths.\n"),
        ])
        .await;
    bench
}

async fn run(bench: &Bench) -> Execution {
    bench.run(r#"{"skill":"unit_converter","input":{"km":4}}"#).await
}

#[tokio::test]
async fn a_skillware_class_gets_the_input_and_gives_the_output() {
    let code = "from typing import Any, Dict\nfrom skillware.core.base_skill import BaseSkill\nfrom factors import MILES\n\n\
        class Converter(BaseSkill):\n    @property\n    def manifest(self):\n        return {}\n\n\
        \x20   def execute(self, params: Dict[str, Any]) -> Any:\n        print('token', self.credential('TOKEN'))\n\
        \x20       return {'miles': params['km'] * MILES}\n";
    let bench = skillware(code).await;
    let json =
        r#"{"skill":"unit_converter","version":"0.2.0","input":{"km":4},"env":{"TOKEN":"t"}}"#;
    let ran = bench.run(json).await;
    assert_eq!((ran.status, ran.error.as_deref()), (Status::Success, None), "{}", ran.logs);
    assert_eq!((ran.output.as_deref(), ran.logs.as_str()), (Some(r#"{"miles":2.0}"#), "token t\n"));
    let named =
        bench.run(r#"{"skill":"unit_converter","script":"skill.py","input":{"km":2}}"#).await;
    assert_eq!(named.output.as_deref(), Some(r#"{"miles":1.0}"#));
    let launches = bench.launcher.launches();
    let wrong = bench.run(r#"{"skill":"unit_converter","input":{"km":"far"}}"#).await;
    assert_eq!(wrong.outcome.as_deref(), Some("refused"));
    assert!(wrong.error.is_some_and(|error| error.contains("#/km: ")));
    assert_eq!(
        bench.launcher.launches(),
        launches,
        "the parameters are the input schema, and cost no sandbox"
    );
}

#[tokio::test]
async fn a_skillware_class_may_be_asynchronous_and_needs_no_base() {
    let code = "import asyncio\n\nclass Converter:\n    async def execute(self, params):\n        await asyncio.sleep(0)\n\
        \x20       return [params['km']]\n";
    let ran = run(&skillware(code).await).await;
    assert_eq!((ran.status, ran.output.as_deref()), (Status::Success, Some("[4]")), "{}", ran.logs);
}

#[tokio::test]
async fn a_skillware_skill_that_cannot_be_called_says_why() {
    for (code, words) in [
        (
            "class A:\n    def execute(self, p): pass\nclass B:\n    def execute(self, p): pass\n",
            "it has: A, B",
        ),
        ("class A:\n    def execute(self, p): return object()\n", "not JSON serializable"),
        ("class A:\n    def execute(self, p): raise ValueError('no such unit')\n", "no such unit"),
        ("def execute(params):\n    return 1\n", "it has: none"),
    ] {
        let ran = run(&skillware(code).await).await;
        assert_eq!(
            (ran.status, ran.exit_code, ran.output),
            (Status::Failed, Some(1), None),
            "{code}"
        );
        assert!(ran.logs.contains(words), "{code}: {}", ran.logs);
    }
}

#[tokio::test]
async fn a_sidecar_says_what_starts_where_with_what() {
    let sidecar = "skill: {name: demo, version: 1.0.0}\npermissions:\n  filesystem: {read: [/tmp/cache], write: [/tmp/cache]}\n\
        \x20 env_vars: {allow: [TOKEN, PATH]}\n  syscalls: {profile: default}\n\
        resources: {memory_mb: 64, cpu_shares: 512, max_runtime_seconds: 20, max_output_bytes: 60}\n\
        entrypoint: {command: bash, args: [tools/show.sh, --first], workdir: /skill}\n";
    let bench = Bench::new().await;
    let script = "pwd; echo \"$@ $TOKEN\"; cat notes.txt; head -c 100 /dev/zero | tr '\\0' x";
    let files = [
        ("SKILL.md", SKILL_MD),
        ("skillsandbox.yaml", sidecar),
        ("tools/show.sh", script),
        ("notes.txt", "here\n"),
    ];
    bench.publish(&files).await;
    let ran = bench.run(r#"{"skill":"demo","args":["second"],"env":{"TOKEN":"t"}}"#).await;
    assert_eq!(ran.status, Status::Success, "{:?}", ran.error);
    let expected = "/sandbox/scripts\n--first second t\nhere\nxxx";
    assert!(
        ran.logs.starts_with(expected) && ran.logs.ends_with("[logs truncated]\n"),
        "{}",
        ran.logs
    );
    let elsewhere = bench.run(r#"{"skill":"demo","cwd":"sandbox"}"#).await;
    assert!(elsewhere.logs.starts_with("/sandbox\n"), "{}", elsewhere.logs);

    let launches = bench.launcher.launches();
    let refused = bench.run(r#"{"skill":"demo","env":{"OTHER":"x"}}"#).await;
    assert_eq!(refused.outcome.as_deref(), Some("refused"));
    assert!(
        refused
            .error
            .is_some_and(|error| error.contains("OTHER") && error.contains("env_vars.allow"))
    );
    assert_eq!(bench.launcher.launches(), launches);
}

#[tokio::test]
async fn what_is_not_granted_is_refused_by_name_and_costs_no_sandbox() {
    let bench = Bench::new().await;
    let permissions = "permissions:\n  network: {egress: [{domain: api.example.com, ports: [443]}, b.example]}\n\
        \x20 filesystem: {read: [/etc/shadow], write: [/tmp]}\n  syscalls: {profile: unconfined}\n";
    let skill_md = format!("---\nname: demo\ndescription: A demonstration.\n{permissions}---\n");
    bench.publish(&[("SKILL.md", &skill_md), ("main.sh", "true")]).await;
    let ran = bench.run(r#"{"skill":"demo"}"#).await;
    assert_eq!((ran.status, ran.outcome.as_deref()), (Status::Failed, Some("refused")));
    assert_eq!(
        ran.error.as_deref(),
        Some(
            "The skill asks for what is not granted here: network egress to api.example.com:443; network egress to \
             b.example; reading /etc/shadow; the system call profile unconfined."
        )
    );
    assert_eq!(bench.launcher.launches(), 0);
}

#[tokio::test]
async fn every_kind_of_script_runs_without_its_executable_bit() {
    let bench = Bench::new().await;
    let scripts = [
        ("a.py", "print('python')", "python\n"),
        ("b.js", "console.log('js')", "js\n"),
        ("c.mjs", "import { word } from './lib/word.mjs'; console.log(word)", "mjs\n"),
        ("d.cjs", "console.log(typeof require)", "function\n"),
        ("e.sh", "echo sh", "sh\n"),
        ("f.bash", "echo ${BASH_VERSION:+bash}", "bash\n"),
        ("g", "#!/usr/bin/env python3\nprint('by shebang')", "by shebang\n"),
        ("bin/h", "#!/bin/sh -e\necho sh by shebang", "sh by shebang\n"),
    ];
    let directory = TempDir::new().expect("a directory");
    let write = |path: &str, text: &str, mode: u32| {
        let place = directory.path().join(path);
        fs::create_dir_all(place.parent().expect("a parent")).expect("a directory");
        fs::write(&place, text).expect("a file");
        fs::set_permissions(place, Permissions::from_mode(mode)).expect("a mode");
    };
    write("SKILL.md", SKILL_MD, 0o644);
    write("lib/word.mjs", "export const word = 'mjs'", 0o644);
    for (path, text, _) in scripts {
        write(path, text, 0o644);
    }
    // Where the bit is set it is honoured: this one starts its neighbour as a program.
    write("i.sh", "exec \"$SKILL_DIR/bin/j\"", 0o644);
    write("bin/j", "#!/bin/sh\necho executable", 0o755);
    let package =
        skill::read_directory(directory.path(), &skill::PackageLimits::default()).expect("a skill");
    bench
        .catalogue
        .publish(None, &acme(), package, &[], &TenantPolicy::default())
        .await
        .expect("published");
    for (path, _, expected) in scripts.into_iter().chain([("i.sh", "", "executable\n")]) {
        let ran = bench.run(&format!(r#"{{"skill":"demo","script":"{path}"}}"#)).await;
        let printed = detail(&ran).stdout;
        assert_eq!(
            (ran.status, printed.as_deref()),
            (Status::Success, Some(expected)),
            "{path}: {:?}",
            ran.error
        );
    }
}
