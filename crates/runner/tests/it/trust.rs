//! The supply chain: what a tenant that requires signatures refuses, at upload and at every run, on
//! both databases. Each case passes where nobody asks, so that it is the rule that refuses it.

use std::sync::Arc;
use std::time::Duration;

use blobs::{BlobKey, Blobs};
use catalogue::{CatalogueError, PublishedSkill, TrustProblem};
use runner::Runner;
use skill::Package;
use skill::signature::{SecretKey, SkillStatement};
use store::{
    Execution, NewTrustedKey, PageRequest, SignaturePolicy, SkillRow, Status, Store, TenantPolicy,
    VersionPolicy,
};
use tempfile::TempDir;
use uuid::Uuid;

use crate::support::{Bench, acme, caller, detail, package, parts, request};

/// Makes each named function a test on either database.
macro_rules! on_both {
    ($($test:ident),+ $(,)?) => {
        mod sqlite {
            $(#[tokio::test]
            async fn $test() {
                let data = tempfile::TempDir::new().expect("a temporary directory");
                let dsn = format!("sqlite:{}", data.path().join("db").display());
                super::$test(super::Chain::new(data, &dsn).await).await;
            })+
        }
        mod postgres {
            $(#[tokio::test]
            async fn $test() {
                let dsn = tokio::task::spawn_blocking(crate::postgres::database).await.expect("a database");
                let data = tempfile::TempDir::new().expect("a temporary directory");
                super::$test(super::Chain::new(data, &dsn).await).await;
            })+
        }
    };
}

on_both!(
    unsigned_skills, keys_that_are_not_trusted, signatures_for_something_else, revoked_keys,
    revoked_content, going_back_to_an_older_version, flipped_bits, swapped_rows,
    a_revocation_reaches_what_is_queued, under_warn_it_is_said_and_done,
    a_refusal_is_in_the_audit_trail,
);

/// A runner on one of the databases, and a key that its tenant trusts.
struct Chain {
    bench: Bench,
    dsn: String,
    key: SecretKey,
}

use SignaturePolicy::{Off, Require, Warn};

impl Chain {
    async fn new(data: TempDir, dsn: &str) -> Chain {
        let store = Store::open(dsn).await.expect("a store");
        store.ensure_tenant(&acme()).await.expect("a tenant");
        let blobs = Blobs::directory(data.path().join("blobs")).expect("blobs");
        let bench = Bench::on(data, store, blobs, |_| {}).await;
        let chain = Chain { bench, dsn: dsn.to_owned(), key: key(1) };
        chain.trust(&chain.key).await;
        chain
    }

    async fn policy(&self, signatures: SignaturePolicy) {
        let policy = TenantPolicy { signatures, ..TenantPolicy::default() };
        assert!(self.bench.store.update_tenant_policy(&acme(), &policy).await.expect("updated"));
    }

    async fn trust(&self, key: &SecretKey) {
        let public = key.public();
        let (key_id, public_key) = (public.id().to_string(), public.to_string());
        let new = NewTrustedKey { key_id, public_key, comment: "tests".to_owned() };
        self.bench.store.add_trusted_key(&acme(), &new).await.expect("trusted");
    }

    async fn upload(&self, package: &Package) -> Result<PublishedSkill, CatalogueError> {
        self.bench
            .catalogue
            .publish(None, &acme(), package.clone(), &[], &TenantPolicy::default())
            .await
    }

    async fn store(&self, package: &Package) {
        self.upload(package).await.expect("published");
    }

    /// Demands that the upload is refused for this reason, and that it is not where nobody asks.
    async fn refused_at_upload(&self, package: &Package, code: &str) {
        self.policy(Require).await;
        let refused = self.upload(package).await;
        let Err(CatalogueError::Untrusted(problem)) = refused else {
            panic!("not refused: {refused:?}")
        };
        assert_eq!(problem.code(), code);
        self.policy(Off).await;
        assert_eq!(self.upload(package).await.expect("nobody asks").findings, []);
    }

    async fn run(&self, version: &str) -> Execution {
        self.bench.run(&format!(r#"{{"skill":"demo","version":"{version}"}}"#)).await
    }

    /// Demands that a run is refused for this reason, without a sandbox.
    async fn refused_at_run(&self, version: &str, code: &str) -> Execution {
        let launches = self.bench.launcher.launches();
        let run = self.run(version).await;
        assert_refused(&run, code);
        assert_eq!(self.bench.launcher.launches(), launches, "a refusal costs no sandbox");
        assert_eq!(self.bench.stored(run.id).await.error, run.error);
        run
    }

    async fn runs(&self, version: &str) {
        let run = self.run(version).await;
        assert_eq!((run.status, run.logs.as_str()), (Status::Success, "ran\n"), "{:?}", run.error);
        assert_eq!(detail(&run).trust, None);
    }

    /// Demands that what is stored is refused under `require`, and runs where nobody asks.
    async fn only_a_rule_stops(&self, version: &str, code: &str) {
        self.policy(Require).await;
        self.refused_at_run(version, code).await;
        self.policy(Off).await;
        self.runs(version).await;
    }

    async fn row(&self, version: &str) -> SkillRow {
        let row = self.bench.store.get_skill(&acme(), "demo", version).await;
        row.expect("answered").expect("a row")
    }
}

fn key(seed: u8) -> SecretKey {
    SecretKey::from_seed([seed; 32]).expect("a key")
}

/// The skill `demo` in this version; `more` tells contents apart.
fn demo(version: &str, more: &str) -> Package {
    let text = format!(
        "---\nname: demo\ndescription: A demonstration.\nversion: {version}\n---\n{more}\n"
    );
    package(&[("SKILL.md", &text), ("main.sh", "echo ran\n")])
}

fn signed(mut package: Package, key: &SecretKey) -> Package {
    package.signature = Some(SkillStatement::from_package(&package).sign(key, 1).to_string());
    package
}

#[track_caller]
fn assert_refused(run: &Execution, code: &str) {
    assert_eq!(
        (run.status, run.outcome.as_deref()),
        (Status::Failed, Some("refused")),
        "{:?}",
        run.error
    );
    assert_eq!(detail(run).trust.expect("a reason").code, code);
    assert!(
        run.error.as_ref().is_some_and(|error| error.starts_with(&format!("Refused ({code}): "))),
        "{:?}",
        run.error
    );
}

async fn unsigned_skills(chain: Chain) {
    let unsigned = demo("1.0.0", "");
    chain.refused_at_upload(&unsigned, "signature_missing").await;
    chain.only_a_rule_stops("latest", "signature_missing").await;
    // Signing what is stored is enough: the content stays as it is.
    chain.policy(Require).await;
    chain.store(&signed(unsigned, &chain.key)).await;
    chain.runs("latest").await;
}

async fn keys_that_are_not_trusted(chain: Chain) {
    let stranger = key(2);
    let package = signed(demo("1.0.0", ""), &stranger);
    chain.refused_at_upload(&package, "key_untrusted").await;
    chain.only_a_rule_stops("latest", "key_untrusted").await;
    chain.trust(&stranger).await;
    chain.policy(Require).await;
    chain.runs("latest").await;
    chain.store(&package).await;
}

async fn signatures_for_something_else(chain: Chain) {
    for other in [demo("2.0.0", ""), demo("1.0.0", "other content")] {
        let mut package = demo("1.0.0", "");
        package.signature = signed(other, &chain.key).signature;
        chain.refused_at_upload(&package, "signature_invalid").await;
        chain.only_a_rule_stops("1.0.0", "signature_invalid").await;
    }
}

async fn revoked_keys(chain: Chain) {
    chain.policy(Require).await;
    let package = signed(demo("1.0.0", ""), &chain.key);
    chain.store(&package).await;
    chain.runs("latest").await;
    let id = chain.key.public().id();
    assert!(chain.bench.store.revoke_trusted_key(&acme(), &id.to_string()).await.expect("revoked"));
    // What it signed before counts no more either.
    chain.only_a_rule_stops("latest", "key_revoked").await;
    chain.refused_at_upload(&package, "key_revoked").await;
    chain.refused_at_upload(&signed(demo("1.0.1", ""), &chain.key), "key_revoked").await;
}

async fn revoked_content(chain: Chain) {
    let package = signed(demo("1.0.0", ""), &chain.key);
    for policy in [Off, Warn, Require] {
        chain.policy(policy).await;
        chain.store(&package).await;
        chain.runs("latest").await;
        chain.bench.store.revoke_digest(&acme(), &package.digest, "stolen").await.expect("revoked");
        chain.refused_at_run("latest", "digest_revoked").await;
        let refused = chain.upload(&package).await;
        assert!(
            matches!(refused, Err(CatalogueError::Untrusted(TrustProblem::DigestRevoked))),
            "{policy}: {refused:?}"
        );
        assert!(
            chain.bench.store.unrevoke_digest(&acme(), &package.digest).await.expect("taken back")
        );
    }
    chain.runs("latest").await;
}

async fn going_back_to_an_older_version(chain: Chain) {
    chain.policy(Require).await;
    let [old, new] = ["1.9.0", "1.10.0"].map(|version| signed(demo(version, ""), &chain.key));
    chain.store(&old).await;
    chain.store(&new).await;
    // Pushing what is there changes nothing, so it is no step back; and who names a version gets
    // it.
    chain.store(&old).await;
    chain.runs("latest").await;
    chain.runs("1.9.0").await;
    let older = signed(demo("1.9.0", "another build"), &chain.key);
    chain.refused_at_upload(&older, "rollback").await;

    // Now the older one was uploaded last, while nobody asked.
    assert_eq!(chain.row("latest").await.version, "1.9.0");
    chain.only_a_rule_stops("latest", "rollback").await;
    // The same when the newest is taken away.
    chain.policy(Require).await;
    assert!(
        chain.bench.catalogue.unpublish(None, &acme(), "demo", "1.10.0").await.expect("deleted")
    );
    chain.refused_at_run("latest", "rollback").await;
    // The operator may want exactly that.
    assert!(chain.bench.store.reset_newest_signed(&acme(), "demo").await.expect("forgotten"));
    chain.runs("latest").await;
}

async fn flipped_bits(chain: Chain) {
    // On the way to us: the content is no longer what was signed.
    let genuine = signed(demo("1.0.0", ""), &chain.key);
    let mut flipped = demo("1.0.0", "!");
    flipped.signature = genuine.signature.clone();
    chain.refused_at_upload(&flipped, "signature_invalid").await;

    // In storage: the archive is no longer what its digest names, which no policy allows.
    chain.policy(Require).await;
    chain.store(&genuine).await;
    let mut archive = genuine.archive.to_vec();
    let at = archive.windows(3).position(|bytes| bytes == b"ran").expect("the script");
    archive[at] ^= 1;
    let key = BlobKey::skill(acme().as_str(), &genuine.digest);
    chain.bench.blobs.put(&key, archive.into()).await.expect("tampered with");
    for policy in [Require, Off] {
        chain.policy(policy).await;
        let run = chain.run("latest").await;
        assert_eq!(run.outcome.as_deref(), Some("refused"), "{:?}", run.error);
        assert!(run.error.is_some_and(|error| error.contains("digest")));
    }
    chain.bench.blobs.put(&key, genuine.archive.clone()).await.expect("restored");
    chain.runs("latest").await;
}

/// An attacker who can write rows, but has no key, points a version at other content that is genuine
/// elsewhere.
async fn swapped_rows(chain: Chain) {
    chain.policy(Require).await;
    let [one, two] = ["1.0.0", "2.0.0"].map(|version| signed(demo(version, ""), &chain.key));
    chain.store(&one).await;
    chain.store(&two).await;
    // The newest version is the old content now, with and without its signature.
    for signature in [None, one.signature.clone()] {
        let signature = signature.map(|text| store::NewSignature { text, trusted: false });
        let row = chain.row("2.0.0").await;
        let swapped = store::NewSkill {
            name: row.name,
            version: row.version,
            digest: one.digest.clone(),
            description: row.description,
            lang: row.lang,
            mode: row.mode,
            manifest: row.manifest,
            entrypoint: row.entrypoint,
            scripts: row.scripts,
            findings: row.findings,
            status: row.status,
            size_bytes: row.size_bytes,
            signature: signature.clone(),
        };
        chain
            .bench
            .store
            .put_skill(&acme(), &swapped, VersionPolicy::Mutable)
            .await
            .expect("swapped");
        let code = if signature.is_none() { "signature_missing" } else { "signature_invalid" };
        chain.only_a_rule_stops("latest", code).await;
        // At upload the same is content under a version that it was not signed for.
        let mut moved = demo("2.0.0", "");
        moved.signature = one.signature.clone();
        chain.refused_at_upload(&moved, "signature_invalid").await;
    }
    // Uploading what was signed mends it.
    chain.policy(Require).await;
    chain.store(&two).await;
    chain.runs("latest").await;
}

/// One server accepts, the rule changes, another server claims.
async fn a_revocation_reaches_what_is_queued(chain: Chain) {
    chain.policy(Require).await;
    let package = signed(demo("1.0.0", ""), &chain.key);
    chain.store(&package).await;
    let [first, second] = [revoke_content, revoke_the_key];
    for (revoke, code) in [(first, "digest_revoked"), (second, "key_revoked")] {
        let launches = chain.bench.launcher.launches();
        chain.bench.launcher.close();
        // Both slots are taken, by runs that wait for their sandboxes.
        let busy = [
            chain.bench.spawn(r#"{"skill":"demo"}"#, None),
            chain.bench.spawn(r#"{"skill":"demo"}"#, None),
        ];
        chain.bench.launcher.launched(launches + 2).await;
        let id = chain
            .bench
            .runner
            .submit(&caller(), request(r#"{"skill":"demo"}"#), None)
            .await
            .expect("queued");
        assert_eq!(chain.bench.stored(id).await.status, Status::Queued);
        revoke(&chain, &package).await;
        chain.bench.launcher.open();
        for run in busy {
            // These were cleared before.
            assert_eq!(run.await.expect("no panic").expect("a run").status, Status::Success);
        }
        let ended = crate::support::until(async || {
            let run = chain.bench.stored(id).await;
            run.status.is_terminal().then_some(run)
        });
        assert_refused(&ended.await, code);
        chain.bench.store.unrevoke_digest(&acme(), &package.digest).await.expect("taken back");
    }
    other_server_refuses_too(&chain).await;
}

type Revoking<'a> = std::pin::Pin<Box<dyn Future<Output = ()> + 'a>>;

fn revoke_content<'a>(chain: &'a Chain, package: &'a Package) -> Revoking<'a> {
    Box::pin(async {
        drop(chain.bench.store.revoke_digest(&acme(), &package.digest, "").await.expect("revoked"))
    })
}

fn revoke_the_key<'a>(chain: &'a Chain, _: &'a Package) -> Revoking<'a> {
    let id = chain.key.public().id().to_string();
    Box::pin(async move {
        assert!(chain.bench.store.revoke_trusted_key(&acme(), &id).await.expect("revoked"))
    })
}

/// A second runner with its own connections knows of it at once.
async fn other_server_refuses_too(chain: &Chain) {
    let mut config = crate::support::runner_config(format!("other-{}", Uuid::new_v4()));
    config.queue_tick = Duration::from_secs(600);
    let store = Store::open(&chain.dsn).await.expect("the same database");
    let launcher = Arc::clone(&chain.bench.launcher);
    let other = Runner::start(config, parts(store, chain.bench.blobs.clone(), Some(launcher)))
        .await
        .expect("a runner");
    let run =
        other.execute(&caller(), request(r#"{"skill":"demo"}"#), None).await.expect("an execution");
    assert_refused(&run.execution, "key_revoked");
    other.drain(Duration::ZERO).await;
}

async fn under_warn_it_is_said_and_done(chain: Chain) {
    chain.policy(Warn).await;
    let published = chain.upload(&demo("1.0.0", "")).await.expect("published");
    let codes: Vec<&str> = published.findings.iter().map(|finding| finding.code).collect();
    assert_eq!(codes, ["signature_missing"]);
    let run = chain.run("latest").await;
    assert_eq!((run.status, run.error.as_deref()), (Status::Success, None));
    assert_eq!(detail(&run).trust.expect("a note").code, "signature_missing");

    chain.store(&signed(demo("2.0.0", ""), &chain.key)).await;
    chain.runs("latest").await;
    let back = chain.upload(&signed(demo("1.5.0", ""), &chain.key)).await.expect("published");
    assert_eq!(back.findings[0].code, "rollback");
    assert_eq!(detail(&chain.run("latest").await).trust.expect("a note").code, "rollback");
}

async fn a_refusal_is_in_the_audit_trail(chain: Chain) {
    let unsigned = demo("1.0.0", "");
    chain.store(&unsigned).await;
    chain.policy(Require).await;
    let run = chain.refused_at_run("latest", "signature_missing").await;
    let trail = chain
        .bench
        .store
        .list_audit_records(&acme(), &PageRequest::default())
        .await
        .expect("a trail");
    let entry = trail.iter().find(|entry| entry.action == "execution.refused").expect("an entry");
    assert_eq!(entry.object, run.id.to_string());
    assert_eq!(entry.detail["reason"], "signature_missing");
    assert_eq!(
        (&entry.detail["skill"], &entry.detail["digest"]),
        (&"demo@1.0.0".into(), &unsigned.digest.into())
    );
}
