//! Lists of executions: filters and pages.

use store::{
    Execution, ExecutionFilter, InitialState, NewExecution, PageRequest, Status, StoreError,
};
use uuid::Uuid;

use crate::support::{TestStore, acme, finished, new_execution, on_both};

on_both!(
    newest_comes_first_and_pages_are_contiguous,
    new_rows_do_not_shift_the_next_page,
    filters_restrict_and_combine,
    list_omits_documents,
    invalid_pages_are_harmless,
);

fn everything() -> ExecutionFilter {
    ExecutionFilter::default()
}

fn ids(executions: &[Execution]) -> Vec<Uuid> {
    executions.iter().map(|execution| execution.id).collect()
}

async fn queue_seven(store: &TestStore) -> Vec<Uuid> {
    let mut newest_first = Vec::new();
    for _ in 0..7 {
        newest_first.insert(0, store.queue(&acme()).await);
    }
    newest_first
}

async fn newest_comes_first_and_pages_are_contiguous(store: TestStore) {
    let expected = queue_seven(&store).await;
    let all = store.list_executions(&acme(), &everything(), &PageRequest::default()).await;
    assert_eq!(ids(&all.expect("listed")), expected);

    let mut by_cursor = Vec::new();
    let mut page = PageRequest::first(3);
    loop {
        let rows = store.list_executions(&acme(), &everything(), &page).await.expect("listed");
        let Some(last) = rows.last() else { break };
        page = PageRequest::after(last.cursor(), 3);
        by_cursor.extend(ids(&rows));
    }
    assert_eq!(by_cursor, expected);

    let mut by_offset = Vec::new();
    for offset in [0, 3, 6, 9] {
        let page = PageRequest { offset, ..PageRequest::first(3) };
        let rows = store.list_executions(&acme(), &everything(), &page).await.expect("listed");
        by_offset.extend(ids(&rows));
    }
    assert_eq!(by_offset, expected);
}

async fn new_rows_do_not_shift_the_next_page(store: TestStore) {
    let expected = queue_seven(&store).await;
    let first = store
        .list_executions(&acme(), &everything(), &PageRequest::first(4))
        .await
        .expect("listed");
    store.queue(&acme()).await;
    let next = PageRequest::after(first[3].cursor(), 50);
    let rest = store.list_executions(&acme(), &everything(), &next).await.expect("listed");
    assert_eq!(ids(&rest), expected[4..]);
}

async fn filters_restrict_and_combine(store: TestStore) {
    let key = Uuid::now_v7();
    let lease = store.run(&acme()).await;
    store.finish(&lease, &finished(Status::Success)).await.expect("finished");
    let echo = store.queue(&acme()).await;
    let since = store.execution(&acme(), echo).await.created_at;
    let new = NewExecution {
        skill_name: "other-skill".into(),
        key_id: Some(key),
        ..new_execution(&acme(), InitialState::Queued)
    };
    store.insert_execution(&new).await.expect("stored");

    let list = async |filter: ExecutionFilter| {
        let rows = store.list_executions(&acme(), &filter, &PageRequest::default()).await;
        ids(&rows.expect("listed"))
    };
    let success = ExecutionFilter { status: Some(Status::Success), ..everything() };
    assert_eq!(list(success).await, [lease.execution_id]);
    let skill = ExecutionFilter { skill: Some("other-skill".into()), ..everything() };
    assert_eq!(list(skill.clone()).await, [new.id]);
    let recent = ExecutionFilter { since: Some(since), ..everything() };
    assert_eq!(list(recent.clone()).await, [new.id, echo]);
    let by_key = ExecutionFilter { key_id: Some(key), ..everything() };
    assert_eq!(list(by_key).await, [new.id]);
    let all_at_once = ExecutionFilter {
        status: Some(Status::Queued),
        key_id: Some(key),
        since: Some(since),
        ..skill
    };
    assert_eq!(list(all_at_once.clone()).await, [new.id]);
    let none = ExecutionFilter { status: Some(Status::Running), ..all_at_once };
    assert!(list(none).await.is_empty());
}

async fn list_omits_documents(store: TestStore) {
    let lease = store.run(&acme()).await;
    store.finish(&lease, &finished(Status::Success)).await.expect("finished");
    let whole = store.execution(&acme(), lease.execution_id).await;
    let short = Execution {
        input: None,
        request: String::new(),
        output: None,
        logs: String::new(),
        detail: None,
        ..whole
    };
    let listed = store.list_executions(&acme(), &everything(), &PageRequest::default()).await;
    assert_eq!(listed.expect("listed"), [short]);
}

async fn invalid_pages_are_harmless(store: TestStore) {
    queue_seven(&store).await;
    let list = async |page: PageRequest| store.list_executions(&acme(), &everything(), &page).await;
    assert_eq!(list(PageRequest::first(0)).await.expect("listed"), []);
    assert_eq!(list(PageRequest::first(-1)).await.expect("listed"), []);
    let negative = PageRequest { offset: -5, ..PageRequest::first(50) };
    assert_eq!(list(negative).await.expect("listed").len(), 7);
    for cursor in ["", ".", "1.", "x.y", "1.not-an-id", "' OR 1=1"] {
        let refused = list(PageRequest::after(cursor.into(), 50)).await;
        assert!(matches!(refused, Err(StoreError::InvalidCursor)), "{cursor:?}");
    }
}
