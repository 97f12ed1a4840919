//! Step one, accept: who asks for which skill, and is the request one we can store and carry out.
//!
//! A request that makes no sense is an error and leaves no trace. One that makes sense but may not
//! run becomes an order with a refusal, so that it is recorded like any other execution.

use std::collections::BTreeMap;

use catalogue::reason_not_runnable;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use store::{Execution, Idempotency, InitialState, Micros, NewExecution, Store, TenantId};
use uuid::Uuid;

use crate::halt::Halt;
use crate::inputs;
use crate::json::compact;
use crate::sealed_env::EnvError;
use crate::{Caller, EnvKey, Request, RunError};

pub const LATEST: &str = "latest";
/// The kernel takes no argument or variable above 128 KiB, and 2 MiB of them in all.
const MAX_WORD_BYTES: usize = 96 << 10;
const MAX_WORDS_BYTES: usize = 1 << 20;

/// Why a stored request cannot be carried out.
#[derive(Debug, thiserror::Error)]
pub enum StoredRequestError {
    #[error("the stored request cannot be read: {0}")]
    Unreadable(#[from] serde_json::Error),
    #[error("the stored env cannot be decrypted: {0}")]
    Env(#[from] EnvError),
}

/// One execution that was accepted and not yet carried out.
#[derive(Debug)]
pub struct Order {
    pub id: Uuid,
    pub tenant: TenantId,
    pub key_id: Option<Uuid>,
    pub skill_name: String,
    pub skill_version: String,
    /// Empty when the version does not exist.
    pub digest: String,
    pub request: Request,
    /// The skill says that running it twice does no harm.
    pub idempotent: bool,
    pub refusal: Option<Halt>,
    pub accepted_at: Micros,
}

pub async fn accept(store: &Store, caller: &Caller, request: Request) -> Result<Order, RunError> {
    if caller.skills.as_ref().is_some_and(|allowed| !allowed.contains(&request.skill)) {
        return Err(RunError::ScopeSkill);
    }
    let request = check(request)?;
    let hidden = hidden_input(store, caller, &request).await?;
    // Before the skill is looked up: what is published later cannot have been meant.
    let accepted_at = store::now();
    let found = store.find_skill(&caller.tenant, &request.skill, &request.version).await?;
    let idempotent = found.as_ref().is_some_and(|head| head.idempotent);
    let (skill_version, digest, refusal) = match found {
        Some(head) => {
            let held = reason_not_runnable(head.status, &head.name, &head.version);
            (head.version, head.digest, held.map(Halt::refused).or(hidden))
        }
        None if request.version == LATEST => return Err(RunError::UnknownSkill),
        None => {
            let refusal = format!("Skill {} has no version {}.", request.skill, request.version);
            (request.version.clone(), String::new(), Some(Halt::refused(refusal)))
        }
    };
    Ok(Order {
        id: Uuid::now_v7(),
        tenant: caller.tenant.clone(),
        key_id: caller.key_id,
        skill_name: request.skill.clone(),
        skill_version,
        digest,
        request,
        idempotent,
        refusal,
        accepted_at,
    })
}

/// A key that may use some skills only may not be given what others left, by way of an input file.
async fn hidden_input(
    store: &Store,
    caller: &Caller,
    request: &Request,
) -> Result<Option<Halt>, RunError> {
    let Some(allowed) = &caller.skills else { return Ok(None) };
    for id in &request.input_files {
        let Ok(uuid) = Uuid::try_parse(id) else { continue };
        let file = store.get_file(&caller.tenant, uuid).await?;
        let Some(execution_id) = file.and_then(|file| file.execution_id) else { continue };
        let execution = store.get_execution_summary(&caller.tenant, execution_id).await?;
        if !execution.is_some_and(|execution| allowed.contains(&execution.skill_name)) {
            return Ok(Some(inputs::missing(id)));
        }
    }
    Ok(None)
}

/// The request with its input made compact, or what is wrong with it.
pub fn check(mut request: Request) -> Result<Request, RunError> {
    let invalid = |sentence: String| Err(RunError::InvalidRequest(sentence));
    if request.skill.is_empty() {
        return invalid("skill must not be empty".to_owned());
    }
    if !word(&request.skill, 128) {
        return Err(RunError::UnknownSkill);
    }
    if !word(&request.version, 128) {
        return invalid("version must be latest or look like 1.2.3".to_owned());
    }
    if request.timeout_ms == Some(0) {
        return invalid("timeout must be longer than nothing".to_owned());
    }
    if let Some(name) =
        request.env.keys().find(|name| name.is_empty() || name.contains(['=', '\0']))
    {
        return invalid(format!("env has {name:?}, which is not a name"));
    }
    let words = || request.args.iter().chain(request.env.keys()).chain(request.env.values());
    if words().any(|word| word.contains('\0') || word.len() > MAX_WORD_BYTES) {
        return invalid(format!(
            "args and env must have no NUL and at most {MAX_WORD_BYTES} bytes each"
        ));
    }
    if words().map(String::len).sum::<usize>() > MAX_WORDS_BYTES {
        return invalid(format!("args and env must have at most {MAX_WORDS_BYTES} bytes together"));
    }
    if let Some(input) = request.input.take() {
        let compact = compact(input.get().as_bytes());
        let compact =
            compact.map_err(|error| RunError::InvalidRequest(format!("input {error}")))?;
        let compact = RawValue::from_string(compact).expect("compact JSON is JSON");
        request.input = Some(compact);
    }
    Ok(request)
}

/// Whether a name is one that could exist: anything else is not worth asking the database for.
fn word(name: &str, max_bytes: usize) -> bool {
    let tail = |char: char| char.is_ascii_alphanumeric() || matches!(char, '.' | '_' | '-' | '+');
    name.len() <= max_bytes
        && name.starts_with(|char: char| char.is_ascii_alphanumeric())
        && name.chars().all(tail)
}

impl Order {
    /// The order as it is stored. An execution that is inserted as running is taken from its process only
    /// when its skill is idempotent; for all others `env`, which holds secrets, is not written down
    /// unless the process itself gives it back.
    pub fn row(
        &self,
        initial_state: InitialState,
        idempotency: Option<Idempotency>,
        key: &EnvKey,
    ) -> NewExecution {
        let env_key = (self.idempotent || !matches!(initial_state, InitialState::Running { .. }))
            .then_some(key);
        NewExecution {
            id: self.id,
            tenant: self.tenant.clone(),
            key_id: self.key_id,
            skill_name: self.skill_name.clone(),
            skill_version: self.skill_version.clone(),
            digest: self.digest.clone(),
            input: self.input().map(str::to_owned),
            request: self.written(env_key),
            idempotency,
            idempotent: self.idempotent,
            awaited: false,
            webhook: self.request.webhook.clone(),
            initial_state,
        }
    }

    /// The request as it is stored: with `env` sealed by the key, or without it. The input has its
    /// own column.
    pub fn written(&self, env_key: Option<&EnvKey>) -> String {
        let plain = Request { input: None, env: BTreeMap::new(), ..self.request.clone() };
        let written = match env_key.filter(|_| !self.request.env.is_empty()) {
            // A text where a map was: a server of an earlier version refuses the row instead of
            // running it without `env`.
            Some(key) => serde_json::to_value(&plain).map(|mut document| {
                document["env"] = key.seal(&self.tenant, self.id, &self.request.env).into();
                document.to_string()
            }),
            None => serde_json::to_string(&plain),
        };
        written.expect("a request has only string keys")
    }

    /// The order that a queued execution was stored as. A row of an earlier version has its `env`
    /// in plain text.
    pub fn from_row(row: &Execution, key: &EnvKey) -> Result<Order, StoredRequestError> {
        let mut document: Value = serde_json::from_str(&row.request)?;
        if let Some(Value::String(sealed)) = document.get("env") {
            document["env"] = json!(key.open(&row.tenant, row.id, sealed)?);
        }
        let mut request: Request = serde_json::from_value(document)?;
        request.input = row.input.clone().map(RawValue::from_string).transpose()?;
        Ok(Order {
            id: row.id,
            tenant: row.tenant.clone(),
            key_id: row.key_id,
            skill_name: row.skill_name.clone(),
            skill_version: row.skill_version.clone(),
            digest: row.digest.clone(),
            request,
            idempotent: false,
            refusal: None,
            accepted_at: row.created_at,
        })
    }

    pub fn input(&self) -> Option<&str> {
        self.request.input.as_deref().map(RawValue::get)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn raw(json: &str) -> Option<Box<RawValue>> {
        Some(RawValue::from_string(json.to_owned()).expect("JSON"))
    }

    #[test]
    fn a_sane_request_passes_with_its_input_compact() {
        let mut request = Request::new("word-counter");
        request.input = raw("{ \"b\" : 1.0 }");
        let checked = check(request).expect("sane");
        assert_eq!(checked.input.as_deref().map(RawValue::get), Some("{\"b\":1.0}"));
    }

    #[test]
    fn nonsense_is_refused_before_anything_is_stored() {
        let broken: [fn(&mut Request); 9] = [
            |r| r.skill.clear(),
            |r| r.version = "1.0\0".to_owned(),
            |r| r.timeout_ms = Some(0),
            |r| drop(r.env.insert(String::new(), "x".to_owned())),
            |r| drop(r.env.insert("A=B".to_owned(), "x".to_owned())),
            |r| drop(r.env.insert("A".to_owned(), "x\0".to_owned())),
            |r| r.args.push("y".repeat(200_000)),
            |r| r.args.extend((0..20).map(|_| "y".repeat(90_000))),
            |r| r.input = raw(&format!("{}{}", "[".repeat(1000), "]".repeat(1000))),
        ];
        for (index, breaks) in broken.into_iter().enumerate() {
            let mut request = Request::new("ok");
            breaks(&mut request);
            assert!(matches!(check(request), Err(RunError::InvalidRequest(_))), "case {index}");
        }
        assert!(matches!(check(Request::new("../etc")), Err(RunError::UnknownSkill)));
    }

    #[test]
    fn an_explicit_null_is_not_the_same_as_no_input() {
        let with =
            |json: &str| serde_json::from_str::<Request>(json).expect("request").input.is_some();
        assert!(with(r#"{"skill":"a","input":null}"#));
        assert!(!with(r#"{"skill":"a"}"#));
    }
}
