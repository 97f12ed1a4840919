//! The audit log as evidence: an entry is written in the transaction of its change, and manipulation
//! of the log in the database is detected.

use std::sync::Arc;

use serde_json::json;
use sha2::{Digest, Sha256};
use store::{
    Actor, AuditHead, AuditProblem, AuditRecord, HeadSigner, NewAuditRecord, NewFile, NewSignature,
    NewSkill, NewTrustedKey, PageRequest, ReviewDecision, Store, StoreError, TenantId,
    TenantPolicy, VersionPolicy, verify_audit,
};
use uuid::Uuid;

use crate::keys::new_key;
use crate::migrations::execute;
use crate::support::{TestStore, acme, new_skill, on_both};

on_both!(
    change_and_audit_entry_share_one_transaction,
    concurrent_writers_do_not_fork_the_chain,
    manipulation_of_the_log_is_detected,
    recomputed_log_is_never_signed,
    entries_from_before_the_chain_are_counted,
);

/// Signs with a secret that an attacker with access to the database does not have.
#[derive(Debug)]
struct Signer {
    /// Accepts any previous head as authentic: the control.
    accepts_any_head: bool,
}

impl HeadSigner for Signer {
    fn sign(&self, head: &AuditHead) -> String {
        let text = serde_json::to_string(head).expect("JSON");
        format!("{text} {:x?}", Sha256::digest(format!("secret {text}")).as_slice())
    }

    fn is_authentic(&self, head: &AuditHead, signed: &str) -> bool {
        self.accepts_any_head || self.sign(head) == signed
    }
}

fn signing(store: &Store) -> Store {
    store.with_head_signer(Arc::new(Signer { accepts_any_head: false }))
}

fn entry(object: &str) -> NewAuditRecord {
    NewAuditRecord {
        actor: None,
        action: "test".into(),
        object: object.into(),
        detail: json!({ "b": 1, "a": "ä" }),
        request_id: None,
    }
}

fn tenant(name: &str) -> TenantId {
    TenantId::try_from(name).expect("a tenant")
}

async fn log(store: &Store, tenant: &TenantId) -> Vec<AuditRecord> {
    store.list_audit_records(tenant, &PageRequest::first(1000)).await.expect("listed")
}

/// The head, if it is signed and authentic.
async fn signed_head(store: &Store, tenant: &TenantId) -> Option<AuditHead> {
    let stored = store.audit_head(tenant).await.expect("readable")?;
    let signer = Signer { accepts_any_head: false };
    stored
        .signed
        .is_some_and(|signed| signer.is_authentic(&stored.head, &signed))
        .then_some(stored.head)
}

async fn problems(store: &Store, tenant: &TenantId) -> Vec<AuditProblem> {
    let head = signed_head(store, tenant).await.expect("a signed head");
    verify_audit(tenant, &log(store, tenant).await, Some(&head))
}

const CHANGES: [&str; 15] = [
    "key.create", "key.revoke", "tenant.create", "tenant.update", "tenant.delete", "trust.key.add",
    "trust.key.revoke", "trust.digest.revoke", "trust.digest.unrevoke", "skill.publish",
    "skill.publish", "trust.version.forget", "skill.approve", "skill.delete", "file.delete",
];

/// Makes the change with this number; all before it must have been made.
async fn change(store: &Store, number: usize, file: Uuid) -> Result<(), StoreError> {
    let (acme, made, key) = (acme(), tenant("made"), "0123456789ABCDEF");
    let signature = NewSignature { text: "signed".into(), trusted: true };
    let skill = |digest| NewSkill {
        signature: Some(signature.clone()),
        ..new_skill("demo", "1.0.0", digest)
    };
    match number {
        0 => drop(store.insert_key(&new_key(&acme, "hash")).await?),
        1 => {
            let key = store.find_key("hash").await?.expect("a key");
            assert!(store.revoke_key(&acme, key.id).await?);
        }
        2 => drop(store.create_tenant(&made, TenantPolicy::default()).await?),
        3 => {
            let policy = TenantPolicy { weight: 7, ..TenantPolicy::default() };
            assert!(store.update_tenant_policy(&made, &policy).await?);
        }
        4 => assert!(store.delete_tenant(&made).await?),
        5 => {
            let new = NewTrustedKey {
                key_id: key.into(),
                public_key: "RW…".into(),
                comment: String::new(),
            };
            drop(store.add_trusted_key(&acme, &new).await?);
        }
        6 => assert!(store.revoke_trusted_key(&acme, key).await?),
        7 => drop(store.revoke_digest(&acme, "sha256:9", "bad").await?),
        8 => assert!(store.unrevoke_digest(&acme, "sha256:9").await?),
        9 => drop(store.put_skill(&acme, &skill("sha256:1"), VersionPolicy::Mutable).await?),
        10 => drop(store.put_skill(&acme, &skill("sha256:2"), VersionPolicy::Mutable).await?),
        11 => assert!(store.reset_newest_signed(&acme, "demo").await?),
        12 => drop(
            store
                .review_skill(&acme, "demo", "1.0.0", None, ReviewDecision::Approved)
                .await?
                .expect("a skill"),
        ),
        13 => drop(store.delete_skill(&acme, "demo", "1.0.0").await?.expect("a skill")),
        _ => drop(store.delete_file(&acme, file, None).await?.expect("a file")),
    }
    Ok(())
}

/// Everything that these changes can modify.
async fn state(store: &Store) -> String {
    let (acme, page) = (acme(), PageRequest::default());
    let keys = store.list_keys(&acme, true, &page).await.expect("listed");
    let tenants = store.list_tenants(&page).await.expect("listed");
    let trusted = store.list_trusted_keys(&acme, &page).await.expect("listed");
    let revoked = store.list_revoked_digests(&acme, &page).await.expect("listed");
    let newest = store.list_newest_signed(&acme, &page).await.expect("listed");
    let skills = store.list_skills(&acme, &page).await.expect("listed");
    let verdict = store.review_decision(&acme, "sha256:2").await.expect("readable");
    let files = store.list_files(&acme, &Default::default(), &page).await.expect("listed");
    format!(
        "{keys:?} {tenants:?} {trusted:?} {revoked:?} {newest:?} {skills:?} {verdict:?} {files:?}"
    )
}

async fn add_file(store: &Store) -> Uuid {
    let id = Uuid::now_v7();
    let new = NewFile {
        id,
        name: "a.txt".into(),
        content_type: "text/plain".into(),
        size_bytes: 1,
        sha256: "00".into(),
        blob_key: format!("acme/files/{id}"),
    };
    store.add_pending_blob(&acme(), &new.blob_key).await.expect("noted");
    store.add_file(&acme(), &new, None, None).await.expect("added");
    id
}

async fn change_and_audit_entry_share_one_transaction(store: TestStore) {
    let file = add_file(&store).await;
    let actor = Actor {
        tenant: acme(),
        key: Some(Uuid::now_v7()),
        subject: None,
        request_id: Some("req".into()),
    };
    let acting = store.with_actor(actor.clone());
    for (number, action) in CHANGES.into_iter().enumerate() {
        let before = state(&store).await;
        execute(&store.dsn, "ALTER TABLE audit RENAME TO audit_away").await;
        let refused = change(&acting, number, file).await;
        assert!(refused.is_err(), "{action} without an entry");
        assert_eq!(state(&store).await, before, "{action}: nothing is left of it");
        execute(&store.dsn, "ALTER TABLE audit_away RENAME TO audit").await;
        change(&acting, number, file).await.unwrap_or_else(|error| panic!("{action}: {error}"));
        assert_ne!(state(&store).await, before, "control: {action} is made when it can be entered");
        let log = log(&store, &acme()).await;
        let newest = log.iter().max_by_key(|entry| entry.seq).expect("an entry");
        assert_eq!((log.len(), newest.action.as_str()), (number + 1, action));
        assert_eq!((newest.actor, &newest.request_id), (actor.key, &actor.request_id));
    }
    // Control: without the table, a change without an audit entry still succeeds, so the renaming
    // alone causes no failure.
    execute(&store.dsn, "ALTER TABLE audit RENAME TO audit_away").await;
    store.insert_key(&new_key(&acme(), "control")).await.expect("a key of the server's own");
}

async fn concurrent_writers_do_not_fork_the_chain(store: TestStore) {
    let stores = [signing(&store), signing(&store.second().await)];
    let writers: Vec<_> = (0..40)
        .map(|number| {
            let store = stores[number % 2].clone();
            tokio::spawn(async move {
                store.append_audit_record(&acme(), &entry(&number.to_string())).await
            })
        })
        .collect();
    for writer in writers {
        writer.await.expect("no panic").expect("appended");
    }
    assert_eq!(problems(&store, &acme()).await, []);
    let mut numbers: Vec<_> =
        log(&store, &acme()).await.iter().filter_map(|entry| entry.seq).collect();
    numbers.sort_unstable();
    assert_eq!(numbers, (1..=40).collect::<Vec<_>>());
}

/// A valid log of five entries.
async fn five(store: &Store, name: &str) -> TenantId {
    let (store, tenant) = (signing(store), tenant(name));
    for number in 1..=5 {
        store.append_audit_record(&tenant, &entry(&number.to_string())).await.expect("appended");
    }
    assert_eq!(problems(&store, &tenant).await, [], "control: an untouched log passes");
    tenant
}

async fn manipulation_of_the_log_is_detected(store: TestStore) {
    let attacks: [(&str, &str, AuditProblem); 9] = [
        ("modify", "UPDATE audit SET object = 'x' WHERE seq = 2", AuditProblem::Modified(2)),
        (
            "actor",
            "UPDATE audit SET actor = '00000000-0000-0000-0000-000000000000' WHERE seq = 2",
            AuditProblem::Modified(2),
        ),
        (
            "time",
            "UPDATE audit SET created_at = created_at + 1 WHERE seq = 5",
            AuditProblem::Modified(5),
        ),
        (
            "reorder",
            "UPDATE audit SET seq = -2 WHERE seq = 2; UPDATE audit SET seq = 2 WHERE seq = 3; UPDATE audit SET seq = 3 WHERE seq = -2",
            AuditProblem::Modified(2),
        ),
        ("remove", "DELETE FROM audit WHERE seq = 3", AuditProblem::Missing(3)),
        (
            "truncate",
            "DELETE FROM audit WHERE seq > 3",
            AuditProblem::Truncated { last: 3, head: 5 },
        ),
        ("empty", "DELETE FROM audit", AuditProblem::Truncated { last: 0, head: 5 }),
        (
            "hide",
            "UPDATE audit SET seq = NULL WHERE seq = 5",
            AuditProblem::Truncated { last: 4, head: 5 },
        ),
        (
            "insert",
            "INSERT INTO audit (id, tenant, action, object, detail, created_at) SELECT 'aaaaaaaa-0000-7000-8000-000000000000', \
             tenant, action, object, detail, created_at FROM audit WHERE seq = 1",
            AuditProblem::Unchained { found: 1, counted: 0 },
        ),
    ];
    for (name, attack, problem) in attacks {
        let tenant = five(&store, name).await;
        let scoped = |statement: &str| match statement.contains(" WHERE ") {
            true => format!("{statement} AND tenant = '{name}'"),
            false => format!("{statement} WHERE tenant = '{name}'"),
        };
        let statements: Vec<_> = attack.split("; ").map(scoped).collect();
        execute(&store.dsn, &statements.join("; ")).await;
        let found = problems(&store, &tenant).await;
        assert!(found.contains(&problem), "{name}: {found:?}");
        if matches!(name, "truncate" | "empty") {
            let unaided = verify_audit(&tenant, &log(&store, &tenant).await, None);
            assert_eq!(unaided, [], "control: {name} passes without the signed head");
        }
    }
}

/// What an attacker with access to the database, but without the server's key, can do: change an
/// entry and recompute all later hashes and the head.
async fn forge(store: &TestStore, tenant: &TenantId) {
    let mut entries = log(store, tenant).await;
    entries.sort_by_key(|entry| entry.seq);
    let (mut before, mut statements) = (String::new(), String::new());
    for entry in &mut entries {
        if entry.seq == Some(2) {
            entry.object = "forged".into();
        }
        before = entry.hash_after(&before);
        entry.hash = Some(before.clone());
        statements += &format!(
            "UPDATE audit SET object = '{}', hash = '{before}' WHERE id = '{}'; ",
            entry.object, entry.id
        );
    }
    statements += &format!("UPDATE audit_heads SET hash = '{before}' WHERE tenant = '{tenant}'");
    execute(&store.dsn, &statements).await;
    let head = store.audit_head(tenant).await.expect("readable").expect("a head").head;
    assert_eq!(verify_audit(tenant, &entries, Some(&head)), [], "only the signature reveals it");
}

async fn recomputed_log_is_never_signed(store: TestStore) {
    let (tenant, control) = (five(&store, "forged").await, five(&store, "control").await);
    forge(&store, &tenant).await;
    assert_eq!(signed_head(&store, &tenant).await, None, "the head is not the one that was signed");
    for _ in 0..2 {
        signing(&store).append_audit_record(&tenant, &entry("later")).await.expect("changes go on");
        assert_eq!(
            signed_head(&store, &tenant).await,
            None,
            "later entries do not make it authentic"
        );
    }
    forge(&store, &control).await;
    let accepts_any_head = store.with_head_signer(Arc::new(Signer { accepts_any_head: true }));
    accepts_any_head.append_audit_record(&control, &entry("later")).await.expect("appended");
    assert_eq!(
        problems(&store, &control).await,
        [],
        "control: signed behind any head, the forgery passes"
    );
}

async fn entries_from_before_the_chain_are_counted(store: TestStore) {
    let old = |id: u32| {
        format!(
            "INSERT INTO audit (id, tenant, action, object, detail, created_at) \
             VALUES ('{id:08}-0000-7000-8000-000000000000', 'acme', 'old', 'x', '{{}}', {id})"
        )
    };
    execute(&store.dsn, &format!("{}; {}", old(1), old(2))).await;
    signing(&store).append_audit_record(&acme(), &entry("first")).await.expect("appended");
    assert_eq!(problems(&store, &acme()).await, []);
    assert_eq!(signed_head(&store, &acme()).await.expect("signed").unchained, 2);
    execute(&store.dsn, "DELETE FROM audit WHERE created_at = 1").await;
    let problem = [AuditProblem::Unchained { found: 1, counted: 2 }];
    assert_eq!(problems(&store, &acme()).await, problem);
}
